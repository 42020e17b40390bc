"""A configuration file repeats a fit."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpexperts
from gpexperts.cli.run_config import read_config, write_config
from tests.cli.houses import FIT

# A length scale at its bound is reported, which is no failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")

TEXT = st.text(st.characters(blacklist_categories=["Cs"]))


def test_written_file_repeats_the_fit(run) -> None:
    args = ("--drop", "town", "--type", "rooms=category", "--na-values", "x", "--test", "0.5")
    assert run(*FIT, *args, "--write-config", "run.toml").code == 0
    first = gpexperts.load("new.gpx")
    table = tomllib.loads(Path("run.toml").read_text())["table"]
    assert table["features"] == ["area", "rooms"]
    assert table["types"] == {"area": "number", "rooms": "category"}
    Path("new.gpx").unlink()
    ended = run("fit", "--config", "run.toml")
    assert ended.code == 0, ended.err
    again = gpexperts.load("new.gpx")
    assert again.table_.columns == first.table_.columns
    assert again.table_.scores == first.table_.scores
    assert again.get_params() == first.get_params()
    assert run("fit", "--config", "run.toml", "-o", "other.gpx", "--features", "area").code == 0
    assert [c.name for c in gpexperts.load("other.gpx").table_.columns] == ["area"]


@given(st.lists(TEXT), st.dictionaries(TEXT, TEXT), TEXT, st.floats(allow_nan=False, allow_infinity=False))
def test_values_are_read_as_they_were_written(tmp_path_factory, names, types, text, number) -> None:
    path = tmp_path_factory.mktemp("config") / "run.toml"
    settings = {"n_experts": 3, "standardize": False, "selection": {"name": "knn", "metric": "manhattan"}}
    table = {"file": text, "drop": names, "types": types, "test": number, "drop_missing": True}
    write_config(path, settings, table)
    assert read_config(path) == (settings, table)


DAMAGED = {
    "lists without end": (b"n_experts = " + b"[" * 20_000, "nested too deeply"),
    "tables without end": (b"[selection]\nmetric = " + b"{a=" * 5000, "nested too deeply"),
    "a key of many parts": (b".".join([b"a"] * 100_000) + b" = 1", "99,999 dots"),
    "a header of many parts": (b"[" + b'."."'.join([b""] * 3000) + b"]", "dots outside of texts"),
    "another encoding": (b'kernel = "\xe9"', "can't decode byte 0xe9"),
    "too many digits": (b"n_experts = " + b"9" * 5000, "4300 digits"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_files_are_refused_with_their_name(kind: str, tmp_path: Path) -> None:
    content, words = DAMAGED[kind]
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"run.toml is not valid TOML: .*{words}"):
        read_config(path)


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="/dev/zero is no configuration: it has more than"):
        read_config(Path("/dev/zero"))


def test_a_byte_order_mark_and_dots_in_names_are_accepted(tmp_path: Path) -> None:
    path, names = tmp_path / "run.toml", [f"x.{i}" for i in range(3000)]
    write_config(path, {"n_experts": 2}, {"features": names, "types": dict.fromkeys(names, "number")})
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    settings, table = read_config(path)
    assert (settings, table["features"], len(table["types"])) == ({"n_experts": 2}, names, 3000)
