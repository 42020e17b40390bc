"""The rows that a node config names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from gpexperts.exceptions import TableError
from gpexperts.federated.app import main, node_rows
from gpexperts.federated.messages import Refusal
from gpexperts.federated.policy import ClientRows, checked_rows
from tests.federated.federations import FaultyGrid, four_clients, function, queries


def context(node: dict | None = None, run: dict | None = None) -> Context:
    return Context(run_id=1, node_id=1, node_config=node or {}, state=RecordDict(), run_config=run or {})


def read(path: Path, target: str = "dose") -> ClientRows:
    return node_rows(context({"rows": str(path), "target": target}))


def table(path: Path, *, first_age: str = "41,5") -> Path:
    """A table with a constant, an identifier and decimal commas."""
    rows = [f"7;{i};{20 + i},25;{i % 5},5" for i in range(29)]
    path.write_text("\n".join(["site;patient_id;age;dose", f"7;99;{first_age};2,5", *rows]) + "\n")
    return path


def test_every_column_of_a_table_is_an_input(tmp_path: Path) -> None:
    """Also those that a single model would leave out: at another client they may vary."""
    rows = read(table(tmp_path / "rows.csv"))
    assert rows.columns == ("site", "patient_id", "age")
    np.testing.assert_array_equal(rows.X[:2], [[7.0, 99.0, 41.5], [7.0, 0.0, 20.25]])
    np.testing.assert_array_equal(rows.y[:3], [2.5, 0.5, 1.5])
    X, y = checked_rows(rows)
    assert X.shape == (30, 3)
    assert y.shape == (30, 1)


def test_a_value_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="NaN"):
        checked_rows(read(table(tmp_path / "rows.csv", first_age="unknown")))


def test_a_target_that_the_table_does_not_have_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no column weight"):
        read(table(tmp_path / "rows.csv"), target="weight")


def test_an_npz_file_has_names_and_units(tmp_path: Path) -> None:
    X = np.arange(60.0).reshape(30, 2)
    np.savez(tmp_path / "rows.npz", X=X, y=X[:, 0], columns=["a", "b"], units=["m", "m", "kg"])
    rows = read(tmp_path / "rows.npz")
    np.testing.assert_array_equal(rows.X, X)
    assert (rows.columns, rows.units) == (("a", "b"), ("m", "m", "kg"))


@pytest.mark.parametrize(
    ("config", "reason"), [({}, "names no rows"), ({"rows": "rows.csv"}, "names no target: add target=")]
)
def test_a_node_config_without_rows_or_target_is_refused_in_words(config: dict, reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        node_rows(context(config))


def test_the_server_fits_and_writes_predictions(tmp_path: Path) -> None:
    X = queries()
    np.savez(tmp_path / "queries.npz", X=X)
    config = {
        "clients": 4,
        "queries": str(tmp_path / "queries.npz"),
        "predictions": str(tmp_path / "predictions.npz"),
        "kernel": "rbf",
        "max-steps": 2,
        "random-state": 0,
    }
    main(FaultyGrid(four_clients()), context(run=config))
    with np.load(tmp_path / "predictions.npz") as found:
        assert np.abs(found["mean"] - function(X)).mean() < 0.1
        assert (found["lower"] < found["upper"]).all()
        assert found["clients"].tolist() == [1, 2, 3, 4]
        assert len(found["absent"]) == 0
