"""The messy table: `inspect`, its command, and `predict`, all at the first try."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from gpexperts import DistributedGPRegressor
from tests.messy import TARGET, write_messy

# A length scale at its bound is reported, which is no failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_error_is_near_that_of_a_fit_to_the_clean_numbers(run) -> None:
    table, queries = write_messy(Path())
    command = json.loads(run("inspect", "readings.csv", "-t", TARGET, "--json").out)["command"]
    for step in (
        shlex.split(command)[1:],
        ["predict", "readings.gpx", "new_readings.csv", "-o", "out.parquet"],
    ):
        done = run(*step)
        assert done.code == 0, done.err
    out = pq.read_table("out.parquet")
    clean = DistributedGPRegressor(random_state=0).fit(table.X, table.y).predict(queries.X)
    rmse = [np.sqrt(np.mean((queries.y - mean) ** 2)) for mean in (out["mean"].to_numpy(), clean)]
    print(f"RMSE {rmse[0]:.4f}, of the clean numbers {rmse[1]:.4f}, ratio {rmse[0] / rmse[1]:.3f}")
    assert rmse[0] <= 1.15 * rmse[1]
