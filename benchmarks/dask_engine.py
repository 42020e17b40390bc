"""The Dask engine and threads: flights3m from a folder of Parquet files.

    python benchmarks/dask_engine.py                   # threads and workers, 1 and 2 of each
    python benchmarks/dask_engine.py --rows 200000     # a smaller trial; nothing is stored
    python benchmarks/dask_engine.py --table           # print the table of the results
    python benchmarks/dask_engine.py --costs           # measure the costs of a task, a row and a query for
                                                       # docs/scaling.md

Every run has its own process, reads the same files, fits with the same settings and predicts the same 20,000
queries. Times are those of reading, fitting and predicting; the start of the cluster and the imports of its
workers are not counted. CPU time is that of the client, with the scheduler, and of all workers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import common

ENGINES = ("threads", "dask")
CORES = (1, 2)
QUERIES = 20_000
FILES = 24
SETTINGS = {"kernel": "matern32", "n_selected": 3, "n_neighbors": 0, "random_state": 0}
"""Nothing is chosen by held-out density, so that all runs do the same work."""
NAMES = [f"x{k}" for k in range(8)]
COST_ROWS = 200_000
NEAREST = "nearest rows of partition"
"""Name of the tasks that find the rows of training blocks in a partition."""


def write_tables(folder: Path, n_rows: int) -> None:
    """Write the training rows as a folder of Parquet files, and the queries beside it."""
    import pandas as pd

    from gpexperts.paper.datasets import load

    arrays = load("flights3m")
    order = np.random.default_rng(0).permutation(len(arrays["y"]))
    frame = pd.DataFrame(arrays["X"][order].astype(float), columns=NAMES).assign(y=arrays["y"][order])
    (folder / "train").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(min(n_rows, len(order) - QUERIES)), FILES)):
        frame.iloc[rows].to_parquet(folder / "train" / f"{number:03d}.parquet", index=False)
    frame.iloc[-QUERIES:].to_parquet(folder / "queries.parquet", index=False)


class Stopwatch:
    """Listener that measures the time of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._stage, self._began = "reading", time.perf_counter()

    def message(self, level: int, text: str) -> None:
        pass

    def start(self, stage: str, total: int | None) -> None:
        now = time.perf_counter()
        self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._began
        self._stage, self._began = stage, now

    def advance(self, steps: int, note: str) -> None:
        pass

    def finish(self) -> None:
        self.start("", None)


@contextmanager
def local_cluster(n_workers: int) -> Iterator[Any]:
    """Workers of one thread each, with gpexperts imported."""
    import distributed

    with distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", memory_limit="4GiB"
    ) as cluster, distributed.Client(cluster) as client:  # fmt: skip
        client.run(_import_all)
        yield client


def _import_all() -> None:
    import pandas  # noqa: F401

    import gpexperts  # noqa: F401


def read(engine: str, folder: Path) -> tuple[Any, Any]:
    """The training rows, in memory or as a dask frame."""
    if engine == "dask":
        import dask.dataframe as dd

        frame = dd.read_parquet(folder / "train")
        return frame[NAMES], frame["y"]
    import pyarrow.parquet as pq

    frame = pq.read_table(folder / "train").to_pandas()
    return frame[NAMES], frame["y"]


def measured(engine: str, cores: int, folder: Path, client: Any) -> dict[str, Any]:
    """Read, fit, predict; return times, memory and scores."""
    import pandas as pd

    from gpexperts import DistributedGPRegressor
    from gpexperts.metrics import msll, smse
    from gpexperts.progress import report_to

    queries = pd.read_parquet(folder / "queries.parquet")
    where = {"n_jobs": cores} if client is None else {"engine": client}
    cpu = -cpu_seconds(client)
    watch = Stopwatch()
    began = time.perf_counter()
    with report_to(watch):
        model = DistributedGPRegressor(**SETTINGS, **where).fit(*read(engine, folder))
        fitted = time.perf_counter()
        mean, std = model.predict(queries[NAMES], return_std=True)
        watch.finish()
    ended = time.perf_counter()
    used, peak = cpu + cpu_seconds(client), common.peak_gigabytes()
    y, y_train = queries["y"].to_numpy(), pd.read_parquet(folder / "train", columns=["y"])["y"].to_numpy()
    return {
        "fit_seconds": fitted - began,
        "predict_seconds": ended - fitted,
        "seconds": ended - began,
        "cpu_seconds": used,
        "client_peak_gb": peak,
        "smse": smse(y, mean),
        "msll": msll(y, mean, std, y_train),
        "n_experts": model.n_experts_,
        "steps": len(model.trace_),
        "stages": {name: round(seconds, 2) for name, seconds in watch.seconds.items()},
    }


def cpu_seconds(client: Any) -> float:
    """Of this process and of all workers."""
    return time.process_time() + (sum(client.run(time.process_time).values()) if client is not None else 0.0)


def one(engine: str, cores: int, folder: Path) -> None:
    """One run; prints a line of JSON."""
    if engine == "dask":
        with local_cluster(cores) as client:
            row = measured(engine, cores, folder, client)
    else:
        row = measured(engine, cores, folder, None)
    print(json.dumps({name: round(v, 4) if isinstance(v, float) else v for name, v in row.items()}))


def table(rows: list[dict[str, Any]]) -> str:
    """The newest run of each kind, with the relative difference to the same number of threads."""
    newest = {(r["engine"], r["workers"]): r for r in rows if r["status"] == "done"}
    lines = [
        "| engine | workers | rows | fit s | predict s | CPU s | fit | predict | both | client's peak GB | "
        "SMSE | MSLL |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (engine, cores), r in sorted(newest.items(), key=lambda item: (item[0][1], item[0][0] == "dask")):
        threads = newest.get(("threads", cores))
        stages = ("fit_seconds", "predict_seconds", "seconds")
        overheads = [""] * 3
        if engine == "dask" and threads is not None:
            overheads = [f"{r[stage] / threads[stage] - 1:+.0%}" for stage in stages]
        lines.append(
            f"| {engine} | {cores} | {r['rows']:,} | {r['fit_seconds']:.1f} | {r['predict_seconds']:.1f} | "
            f"{r['cpu_seconds']:.1f} | {' | '.join(overheads)} | {r['client_peak_gb']:.2f} | "
            f"{r['smse']:.4f} | {format(r['msll'], '.4f') if 'msll' in r else ''} |"
        )
    return "\n".join(lines)


def costs(n_rows: int, folder: Path) -> dict[str, float]:
    """Measure, on two workers, the costs on which scaling depends, in seconds."""
    import distributed
    import pandas as pd

    from gpexperts import DistributedGPRegressor
    from gpexperts.engines.dask import DaskEngine

    found: dict[str, float] = {}
    with local_cluster(2) as client:
        engine = DaskEngine()
        held = engine.hold(list(range(2)), [1.0, 1.0])
        held.map(_nothing, None)
        found["seconds a round trip"] = min(
            common.timed(lambda: held.map(_nothing, None))[1] for _ in range(50)
        )
        many = [engine.task("nothing", _nothing, k, None) for k in range(2000)]
        began = time.process_time()  # the scheduler lives in this process, and works on one core
        engine.compute(many)
        found["CPU seconds a task"] = (time.process_time() - began) / len(many)

        queries = pd.read_parquet(folder / "queries.parquet")
        began = cpu_seconds(client)
        with distributed.get_task_stream(client) as stream:
            model = DistributedGPRegressor(**SETTINGS, engine=client).fit(*read("dask", folder))
        found["CPU seconds of fit"] = cpu_seconds(client) - began
        seconds, count = _by_work(stream.data)
        found["passes of training"] = count[NEAREST] / FILES
        found["seconds a row and pass"] = seconds[NEAREST] / found["passes of training"] / n_rows
        found["seconds to read a row"] = seconds["read_parquet"] / (count["read_parquet"] / FILES) / n_rows
        began = cpu_seconds(client)
        model.predict(queries[NAMES], return_std=True)
        found["CPU seconds a query"] = (cpu_seconds(client) - began) / len(queries)
        found["steps"] = len(model.trace_)
    return found


def _by_work(done: Any) -> tuple[Counter[str], Counter[str]]:
    """Seconds and number of the tasks that find nearest rows or read files, from the task stream."""
    seconds, count = Counter[str](), Counter[str]()
    for task in done:
        for kind in (NEAREST, "read_parquet"):
            if kind in str(task["key"]):
                times = [t["stop"] - t["start"] for t in task["startstops"] if t["action"] == "compute"]
                seconds[kind] += sum(times)
                count[kind] += 1
    return seconds, count


def measured_costs(found: dict[str, float]) -> str:
    """The measured costs as a table."""
    rows = {
        "round trip with one task per worker": f"{1e3 * found['seconds a round trip']:.2g} ms",
        "CPU time of client and scheduler per task": f"{1e3 * found['CPU seconds a task']:.2g} ms",
        "steps of training": f"{found['steps']:.0f}",
        "passes over all rows to find training blocks": f"{found['passes of training']:.0f}",
        "one row in such a pass": f"{1e6 * found['seconds a row and pass']:.2g} µs",
        "reading one row from Parquet": f"{1e6 * found['seconds to read a row']:.2g} µs",
        "CPU time of a query (NPAE, K = 3)": f"{1e3 * found['CPU seconds a query']:.2g} ms",
    }
    lines = [f"| measured on {COST_ROWS:,} rows of flights3m (8 inputs), two workers | |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {what} | {value} |" for what, value in rows.items())])


def _nothing(item: Any, argument: Any) -> None:
    return None


def main() -> None:
    """Run everything, or one run, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, help="training rows; default: all but the queries")
    parser.add_argument("--engine", nargs="*", default=ENGINES, choices=ENGINES)
    parser.add_argument("--cores", nargs="*", type=int, default=CORES)
    parser.add_argument("--costs", action="store_true", help="measure costs for docs/scaling.md and stop")
    parser.add_argument("--table", action="store_true", help="print the table and stop")
    parser.add_argument("--one", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one(args.engine[0], args.cores[0], args.one)
        return
    if args.table:
        print(table(common.rows("dask")))
        return
    n_rows = args.rows or (COST_ROWS if args.costs else 3_000_000 - QUERIES)
    done = []
    with tempfile.TemporaryDirectory() as name:
        write_tables(Path(name), n_rows)
        if args.costs:
            found = costs(n_rows, Path(name))
            print("\n".join(f"{what}: {value:.4g}" for what, value in found.items()))
            if args.rows is None:
                page = common.HERE.parent / "docs" / "scaling.md"
                common.write_between(page, "measured", measured_costs(found))
            return
        for cores in args.cores:
            for engine in args.engine:
                arguments = ["--one", name, "--engine", engine, "--cores", str(cores)]
                result = common.run_apart("dask_engine.py", arguments, limit=3600)
                done.append(
                    {"engine": engine, "workers": cores, "rows": n_rows, **result, **common.machine()}
                )
                print(json.dumps(done[-1]), flush=True)
                if args.rows is None:
                    common.append("dask", done[-1])
    print(table(done))


if __name__ == "__main__":
    main()
