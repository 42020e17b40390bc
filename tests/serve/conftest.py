"""A model of three kinds of inputs, and the service of it."""

from __future__ import annotations

import numpy as np
import pytest
from starlette.testclient import TestClient

from gpexperts import DistributedGPRegressor, load
from gpexperts.serve import create_app
from gpexperts.tables.reading import open_table
from gpexperts.tables.training import read_training_rows


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> DistributedGPRegressor:
    """Fitted on a CSV, saved and loaded, as the command does."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("serve")
    lines = ["area,new,</script>,price"]
    for _ in range(150):
        area, new, town = rng.uniform(30, 200), rng.integers(2), rng.choice(["north", "south"])
        price = area + 20 * new + 30 * (town == "north") + rng.normal()
        lines.append(f"{area:.1f},{'true' if new else 'false'},{town},{price:.2f}")
    (folder / "houses.csv").write_text("\n".join(lines) + "\n")
    rows = read_training_rows(open_table(str(folder / "houses.csv"), None), "price", one_hot="auto")
    fitted = DistributedGPRegressor(
        n_experts=3, kernel="rbf", n_neighbors=16, n_selected=1, random_state=0
    ).fit(rows.frame, rows.y)
    fitted.table_ = rows.schema
    fitted.save(folder / "houses.gpx")
    return load(folder / "houses.gpx")


@pytest.fixture(scope="session")
def client(model: DistributedGPRegressor) -> TestClient:
    with TestClient(create_app(model)) as started:
        yield started


ROW = {"area": 100.0, "new": True, "</script>": "north"}
