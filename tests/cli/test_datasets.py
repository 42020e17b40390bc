from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gpexperts.cli.app import app

runner = CliRunner()
WIDE = {"COLUMNS": "250"}


def test_lists_which_data_sets_are_present(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPEXPERTS_DATA", str(tmp_path))
    monkeypatch.setenv("GPEXPERTS_CACHE", str(tmp_path / "cache"))
    np.savez(tmp_path / "concrete.npz", X=np.zeros((1030, 8)), y=np.zeros(1030))
    result = runner.invoke(app, ["datasets", "--check"], env=WIDE)
    assert result.exit_code == 0
    (concrete,) = [line for line in result.output.splitlines() if "│ concrete" in line]
    assert "another file" in concrete
    (song,) = [line for line in result.output.splitlines() if "│ song " in line]
    assert song.rstrip(" │").endswith("–")


def test_failed_download_names_the_folder_for_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPEXPERTS_DATA", str(tmp_path))
    monkeypatch.setenv("GPEXPERTS_CACHE", str(tmp_path / "cache"))
    result = runner.invoke(app, ["datasets", "--download", "song_head"], env=WIDE)
    assert result.exit_code == 1
    assert f"Put song_head.npz (arrays X (1176, 90) and y (1176,)) into {tmp_path}" in result.output
