"""Time that reading, checking and writing a table add to the prediction of the model.

    python benchmarks/cli_throughput.py

1,000,000 rows × 10 columns of Parquet (and of CSV), predicted by a small model batch by batch, as
`gpexperts predict` does it. It prints the total seconds, the seconds of the model, and the
difference, which should be below 5 s for Parquet.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from gpexperts import DistributedGPRegressor
from gpexperts.schema import TableColumn, TableSchema
from gpexperts.tables.reading import open_table
from gpexperts.tables.rows import predict_table
from gpexperts.tables.writing import writing

N_COLUMNS = 10


class Timed(DistributedGPRegressor):
    """A model that measures the seconds of its predictions."""

    seconds = 0.0

    def predict(self, X: np.ndarray, return_std: bool = False, latent: bool = False) -> Any:
        began = time.perf_counter()
        try:
            return super().predict(X, return_std=return_std, latent=latent)
        finally:
            self.seconds += time.perf_counter() - began


def small_model(kind: type[DistributedGPRegressor] = DistributedGPRegressor) -> Any:
    """Two experts of 100 rows, one selected per query, columns c0 … c9."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, N_COLUMNS))
    model = kind(n_experts=2, n_selected=1, kernel="rbf", optimizer=None, random_state=0)
    model.fit(pa.table({f"c{k}": X[:, k] for k in range(N_COLUMNS)}), np.sin(3 * X[:, 0]))
    columns = [TableColumn(f"c{k}", "number", "", 0.0, 1.0) for k in range(N_COLUMNS)]
    model.table_ = TableSchema(["y"], columns, "made", "", 200, 0, -1.0, 1.0, {})
    return model


def write_table(path: Path, n: int, seed: int = 1) -> None:
    """Write n rows of random numbers and a key."""
    rng = np.random.default_rng(seed)
    table = pa.table({"key": np.arange(n), **{f"c{k}": rng.uniform(size=n) for k in range(N_COLUMNS)}})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        pacsv.write_csv(table, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    print(f"{'format':8} {'rows':>10} {'whole s':>8} {'model s':>8} {'added s':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("parquet", "csv"):
            source, out = Path(folder) / f"in.{ending}", Path(folder) / f"out.{ending}"
            write_table(source, rows)
            model = small_model(Timed)
            began = time.perf_counter()
            with writing(str(out)) as write:
                done = predict_table(model, open_table(str(source)), write, keep=["key"]).n_rows
            whole = time.perf_counter() - began
            assert done == rows
            print(f"{ending:8} {rows:10,} {whole:8.2f} {model.seconds:8.2f} {whole - model.seconds:8.2f}")


if __name__ == "__main__":
    main()
