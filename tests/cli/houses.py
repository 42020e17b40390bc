"""Tables of houses, and what the library predicts for them."""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq

from gpexperts import DistributedGPRegressor

COMMAND = [sys.executable, "-m", "gpexperts"]


FIT = (
    "fit",
    "houses.csv",
    "--target",
    "price",
    "-o",
    "new.gpx",
    "--n-experts",
    "2",
    "--config",
    "untrained.toml",
)


def write_as(table: pa.Table, path: str) -> None:
    if path.endswith("parquet"):
        pq.write_table(table, path)
    elif path.endswith("feather"):
        feather.write_feather(table, path)
    elif path.endswith("arrow"):  # the streaming format
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    else:
        with pa.output_stream(path, compression="detect") as file:
            pacsv.write_csv(table, file)


def read_as(path: str) -> pa.Table:
    if path.endswith("parquet"):
        return pq.read_table(path)
    if path.endswith(("feather", "arrow")):
        return feather.read_table(path)
    with pa.input_stream(path, compression="detect") as file:
        return pacsv.read_csv(file)


def inputs(table: pa.Table) -> pa.Table:
    """Return the inputs of a houses table."""
    return table.select(["area", "rooms", "town"])


def direct(model: DistributedGPRegressor, table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return what the library predicts for the rows of a houses table."""
    return model.predict(inputs(table), return_std=True)
