"""`gpexperts inspect` shows all columns and suggests a command that works."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import gpexperts
from tests.messy import COLUMNS, TARGET, messy

# A length scale at its bound is reported, which is no failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")


def test_page_shows_columns_problems_and_the_command(run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    ended = run("inspect", "houses.csv")
    assert (ended.code, ended.err) == (0, "")
    for words in (
        "houses.csv: 300 rows, 5 columns",
        "left out: identifier: every value is different",
        "north",
        "No --target was given",
        "gpexperts fit houses.csv --target price --test 0.2 --out houses.gpx",
    ):
        assert words in ended.out
    Path("odd.csv").write_text("a,b,price\n" + "x,1,1\n2,1,2\n3,2,x\n4,2,4\n5,3,\n")
    out = run("inspect", "odd.csv", "-t", "price").out
    assert "To be decided: Column a holds numbers, but 20% of its values are not, such as 'x'." in out
    assert "To be decided: The target price is not all numbers." in out
    assert "--type a=number" in out


def test_suggested_command_fits_and_predicts_at_the_first_try(run) -> None:
    """In small and without training; `test_messy_table` has the proof in full."""
    Path("readings.csv").write_text(messy(300).text, encoding="utf-8")
    Path("new.csv").write_text(messy(60, new=True).text, encoding="utf-8")
    facts = json.loads(run("inspect", "readings.csv", "-t", TARGET, "--json").out)
    assert [column["name"] for column in facts["columns"]] == list(COLUMNS)
    assert facts["problems"] == []
    words = shlex.split(facts["command"])
    assert words[:2] == ["gpexperts", "fit"]
    ended = run(*words[1:], "--config", "untrained.toml", "--kernel", "rbf", "--n-experts", "2")
    assert ended.code == 0, ended.err
    for said in (
        "Left out: Schlüssel (identifier",
        "Währung (constant (EUR))",
        "gradient boosting",
        "60 of 300 rows",
    ):
        assert said in ended.err
    ended = run("predict", "readings.gpx", "new.csv", "--keep", "Menge, netto", "-o", "out.csv")
    assert ended.code == 0, ended.err
    assert "60 rows predicted. Levels that training has not seen, or seen once: " in ended.err
    assert "Region (1 row)" in ended.err
    scores = gpexperts.load("readings.gpx").table_.scores
    assert scores["how"] == "60 of 300 rows, at random"
    assert set(scores["models"]) == {"gpexperts", "linear model", "gradient boosting"}
    assert "left-out rows" in run("info", "readings.gpx").out


@pytest.mark.parametrize("name", ["a, b", "it's", '"q"', "$x", " y"])
def test_names_in_the_command_are_quoted(run, name: str) -> None:
    field = '"' + name.replace('"', '""') + '"'
    Path("odd.csv").write_text(f"x,{field}\n" + "".join(f"{i % 5},{i % 3}\n" for i in range(12)))
    command = json.loads(run("inspect", "odd.csv", "--json").out)["command"]
    ended = run(*shlex.split(command)[1:], "--config", "untrained.toml")
    assert ended.code == 0, ended.err
    assert gpexperts.load("odd.gpx").table_.targets == [name]
