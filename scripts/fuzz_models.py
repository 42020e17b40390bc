"""Load mutated and generated model files, and watch the time, memory and threads of each.

    python scripts/fuzz_models.py                                     10,000 of each
    python scripts/fuzz_models.py --mutated 500 --generated 500 --seconds 300
    python scripts/fuzz_models.py --first 500                         goes on from seed 500

A file may take 1 s + 1 s per 10 MB of CPU time, 50 MB + 10 × its length of memory, and 50 threads. It must
load or raise a ModelFileError. A file over a limit is loaded again in a new process. The exit code is 1 if a
file is over it again; it is then kept in --keep.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.io.forging import forged, taken_apart, write_originals
from tests.io.generating import generated
from tests.io.watching import Cost, Watch

from gpexperts.exceptions import UnsavableModelError


def main() -> int:
    """Run the fuzzers and print what was tried."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mutated", type=int, default=10_000)
    parser.add_argument("--generated", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--keep", type=Path, default=Path("out/fuzz"), help="folder of files over a limit")
    given = parser.parse_args()
    wanted = {"mutated": given.mutated, "generated": given.generated}
    makers = {"mutated": forged, "generated": generated}
    began = time.monotonic()
    costs: dict[str, list[Cost]] = {kind: [] for kind in wanted}
    n_over, seed = 0, given.first
    with tempfile.TemporaryDirectory() as folder:
        originals = write_originals(Path(folder))
        parts = [taken_apart(path) for path in originals.values()]
        path = Path(folder) / "tried.gpx"
        with Watch(originals["knn, with factors"]) as watch:
            for seed in range(given.first, given.first + max(wanted.values())):
                if time.monotonic() - began > given.seconds:
                    seed -= 1
                    break
                for kind, make in makers.items():
                    if seed - given.first >= wanted[kind]:
                        continue
                    try:
                        content = make(parts, seed)
                    except UnsavableModelError:  # too large for a file
                        continue
                    path.write_bytes(content)
                    cost = watch.load(path)
                    costs[kind].append(cost)
                    if cost.excess():
                        n_over += 1
                        given.keep.mkdir(parents=True, exist_ok=True)
                        (given.keep / f"{kind}-{seed}.gpx").write_bytes(content)
                        print(f"{kind} {seed}: {', '.join(cost.excess())}; {cost}")
    for kind, some in costs.items():
        if some:
            print(f"{kind}: {_summary(some)}")
    print(f"seeds {given.first} to {seed}: {n_over} over a limit, {time.monotonic() - began:.0f} s")
    return 1 if n_over else 0


def _summary(costs: list[Cost]) -> str:
    ends = ", ".join(f"{count:,} {end}" for end, count in sorted(Counter(c.end for c in costs).items()))
    return (
        f"{len(costs):,} files of up to {max(c.bytes for c in costs) / 1e6:.1f} MB: {ends}; at most "
        f"{max(c.seconds for c in costs):.2f} s, {max(c.megabytes for c in costs):.0f} MB, "
        f"{max(c.threads for c in costs)} threads"
    )


if __name__ == "__main__":
    sys.exit(main())
