"""The tutorial runs, and prints what it says it prints, but for the numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tutorial import PAGE, PICTURE, run, words


@pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")
def test_the_tutorial_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    text = PAGE.read_text(encoding="utf-8")
    assert words(run(text)) == words(text)
    for made in ("rides.gpx", "predictions.csv", "report.html"):
        assert (tmp_path / made).stat().st_size > 0


def test_the_picture_is_there() -> None:
    assert PICTURE.read_bytes().startswith(b"\x89PNG")
    assert "images/report.png" in PAGE.read_text(encoding="utf-8")
