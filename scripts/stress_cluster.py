"""Change the workers of a Dask cluster during fits and predictions, and print how these ended.

    python scripts/stress_cluster.py                                  20 rounds of everything, about an hour
    python scripts/stress_cluster.py --rounds 2 --scenarios killed,scale

"right" is the answer of one process to 1e-8, "error" a ClusterError within a minute. The exit code is 1 if
anything else has happened; a round is ended after four minutes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.robustness.moving import OPERATIONS, SCENARIOS, tried


def main() -> int:
    """Run the scenarios and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    given = parser.parse_args()
    failed = 0
    print("| scenario | operation | rounds | right | error | else | longest |\n|---|---|---|---|---|---|---|")
    for scenario in given.scenarios.split(","):
        for operation in given.operations.split(","):
            began = time.monotonic()
            rounds = [tried(scenario, operation) for _ in range(given.rounds)]
            ends = Counter(r.end for r in rounds)
            other = given.rounds - ends["right"] - ends["error"]
            failed += other
            longest = max(r.seconds for r in rounds)
            print(
                f"| {scenario} | {operation} | {given.rounds} | {ends['right']} | {ends['error']} | {other} "
                f"| {longest:.1f} s |",
                flush=True,
            )
            for r in rounds:
                if r.message:
                    print(f"    {r.end} after {r.seconds:.1f} s: {r.message[:300]}", file=sys.stderr)
            print(f"    {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
