"""A model of four kinds of inputs, and the service of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest
from starlette.testclient import TestClient

from gpexperts import DistributedGPRegressor, load
from gpexperts.cli import main
from gpexperts.serve import create_app

ROW = {"area": 100.0, "new": True, "</script>": "north", "sold": "2024-03-01T12:00:00"}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> DistributedGPRegressor:
    """Fitted by the command line."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("serve")
    lines = ["area,new,</script>,sold,price"]
    for i in range(150):
        area, new, town = rng.uniform(30, 200), rng.integers(2), rng.choice(["north", "south"])
        price = area + 20 * new + 30 * (town == "north") + rng.normal()
        sold = f"2024-0{1 + i % 6}-{1 + i % 28:02d}T0{i % 10}:00:00"
        lines.append(f"{area:.1f},{'true' if new else 'false'},{town},{sold},{price:.2f}")
    (folder / "houses.csv").write_text("\n".join(lines) + "\n")
    options = ["--n-experts", "3", "--kernel", "rbf", "--n-neighbors", "16", "--n-selected", "1", "--quiet"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["gpexperts", "fit", "houses.csv", "-t", "price", "-o", "h.gpx", *options])
        with pytest.raises(SystemExit) as end:
            main()
    assert end.value.code == 0
    return load(folder / "h.gpx")


@pytest.fixture(scope="session")
def client(model: DistributedGPRegressor) -> Iterator[TestClient]:
    with TestClient(create_app(model)) as started:
        yield started
