"""The tutorial runs, and its output differs from the page only in numbers and choices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.problems import choose_and_train_quickly
from tests.tutorial import FIGURE, PAGE, run, words

ROWS = "range(0, 14600, 5)"


@pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")
@pytest.mark.parametrize("rows", ["range(0, 14600, 35)", pytest.param(ROWS, marks=pytest.mark.slow)])
def test_tutorial_runs_as_written(rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the default suite with fewer rows, so that only the set of words is compared."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    text = PAGE.read_text(encoding="utf-8")
    assert ROWS in text
    if rows != ROWS:
        choose_and_train_quickly(monkeypatch)
    text = text.replace(ROWS, rows)
    written, printed = words(text), words(run(text))
    if rows != ROWS:  # other numbers, and tables that are broken into other lines
        written, printed = ({word for word in some if "#" not in word} for some in (written, printed))
    assert printed == written if rows == ROWS else printed >= written
    for made in ("rides.gpx", "predictions.csv", "report.html"):
        assert (tmp_path / made).stat().st_size > 0


def test_figure_exists() -> None:
    assert FIGURE.read_bytes().startswith(b"\x89PNG")
    assert "images/report.png" in PAGE.read_text(encoding="utf-8")
