"""The tutorial runs, and its output differs from the page only in numbers and choices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tutorial import FIGURE, PAGE, run, words


@pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")
def test_tutorial_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    text = PAGE.read_text(encoding="utf-8")
    assert words(run(text)) == words(text)
    for made in ("rides.gpx", "predictions.csv", "report.html"):
        assert (tmp_path / made).stat().st_size > 0


def test_figure_exists() -> None:
    assert FIGURE.read_bytes().startswith(b"\x89PNG")
    assert "images/report.png" in PAGE.read_text(encoding="utf-8")
