"""Requests per second of `gpexperts serve`, measured with wrk.

    python benchmarks/service.py                     # a model of 10,000 rows of pol

The service runs on one core and wrk (a Debian package) on another. Every request has one row; the rows of the
test set take turns. The target: 1,000 requests per second, with 99 % of them answered within 20 ms. The model
has the defaults, and then own experts of fewer rows. `predict_ms` is the time of the prediction alone, per
row of a batch as large as the number of connections. The results are appended to results/service.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common

RESULTS = Path(__file__).parent / "results" / "service.jsonl"
ROWS = 10_000
BODIES = 1000
SCRIPT = """
local bodies = {{}}
for line in io.lines("{bodies}") do bodies[#bodies + 1] = line end
local next = 0
request = function()
  next = next % #bodies + 1
  return wrk.format("POST", "/predict", {{["Content-Type"] = "application/json"}}, bodies[next])
end
done = function(summary, latency, requests)
  io.write(string.format("requests %d microseconds %d p50 %f p99 %f errors %d\\n", summary.requests,
    summary.duration, latency:percentile(50), latency:percentile(99),
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout))
end
"""


def fitted(folder: Path) -> Any:
    """Fit the defaults to 10,000 rows of pol, and write the bodies of the requests."""
    from gpexperts import DistributedGPRegressor

    X, y, X_test, _ = common.load("pol")
    model = DistributedGPRegressor(random_state=0).fit(X[:ROWS], y[:ROWS])
    print(f"{ROWS:,} rows, {X.shape[1]} inputs; trend {model.choices_['trend'].value}", flush=True)
    names = [f"x{k}" for k in range(X.shape[1])]
    rows = [json.dumps({"rows": [dict(zip(names, x, strict=True))]}) for x in X_test[:BODIES].tolist()]
    (folder / "bodies.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "requests.lua").write_text(SCRIPT.format(bodies=folder / "bodies.txt"), encoding="utf-8")
    return model, X_test


def alone(model: Any, X: Any, rows: int) -> float:
    """Return the time of a prediction on one core, in ms per row of a batch; the best of several batches."""
    from gpexperts.engines.threads import blas_threads

    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    best = float("inf")
    with blas_threads(1):
        for start in range(0, 40 * rows, rows):
            Z = X[start % 1000 : start % 1000 + rows]
            began = time.process_time()
            model.predict(Z, return_std=True)
            best = min(best, (time.process_time() - began) / rows)
    os.sched_setaffinity(0, cores)
    return 1000 * best


def measured(model: Path, connections: int, seconds: int) -> dict[str, float]:
    """Start the service on the first core and wrk on the last one; return rates and latencies."""
    cores = sorted(os.sched_getaffinity(0))
    serve = [sys.executable, "-m", "gpexperts", "serve", str(model), "--port", "0"]
    service = subprocess.Popen(["taskset", "-c", str(cores[0]), *serve], stderr=subprocess.PIPE, text=True)
    try:
        assert service.stderr is not None
        url = service.stderr.readline().split()[0]
        wrk = ["wrk", "-t1", f"-c{connections}", "-s", str(model.with_name("requests.lua")), url]
        pinned = ["taskset", "-c", str(cores[-1]), *wrk]
        subprocess.run([*pinned, "-d3s"], check=True, capture_output=True)  # warm up
        before = cpu_seconds(service.pid)
        done = subprocess.run([*pinned, f"-d{seconds}s"], check=True, capture_output=True, text=True)
        cpu = cpu_seconds(service.pid) - before
    finally:
        service.terminate()
        service.wait(30)
    found = re.search(r"requests (\S+) microseconds (\S+) p50 (\S+) p99 (\S+) errors (\S+)", done.stdout)
    assert found is not None, done.stdout
    requests, duration, p50, p99, errors = map(float, found.groups())
    return {
        "connections": connections,
        "requests_per_second": round(1e6 * requests / duration, 1),
        "p50_ms": round(p50 / 1000, 2),
        "p99_ms": round(p99 / 1000, 2),
        "cpu_ms_per_request": round(1000 * cpu / requests, 3),
        "errors": errors,
    }


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process so far: it counts on a machine that does other work too."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 16])
    parser.add_argument("--neighbors", type=int, nargs="*", default=[128, 64])
    parser.add_argument("--seconds", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        model, X = fitted(Path(name))
        for m in (None, *arguments.neighbors):
            if m is not None:
                model.set_params(n_neighbors=m, n_selected=0)
            model.save(Path(name) / "model.gpx", include_factors=True)
            setup = str(model.predictor_.tuning)
            for connections in arguments.connections:
                result = measured(Path(name) / "model.gpx", connections, arguments.seconds)
                result["predict_ms"] = round(alone(model, X, connections), 3)
                row = {"rows": ROWS, "time": time.strftime("%Y-%m-%d"), "setup": setup, **result}
                print(json.dumps(row), flush=True)
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
