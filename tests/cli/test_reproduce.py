from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpexperts.cli import reproduce as command
from gpexperts.cli.app import app

runner = CliRunner()


def test_the_list_names_every_experiment() -> None:
    result = runner.invoke(app, ["reproduce", "--list"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "concrete-baselines" in result.output
    assert "consistency" in result.output


def test_unknown_name_is_an_error_that_lists_the_experiments() -> None:
    result = runner.invoke(app, ["reproduce", "concrete"])
    assert result.exit_code == 2
    assert "concrete-baselines" in result.output


def test_all_runs_all_and_lists_missing_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {name: command.EXPERIMENTS[name] for name in ("selection-scheme", "concrete-graph")}
    monkeypatch.setattr(command, "EXPERIMENTS", chosen)
    monkeypatch.setattr(command, "QUICK", (60, 20))
    monkeypatch.setenv("GPEXPERTS_DATA", str(tmp_path))
    monkeypatch.setenv("GPEXPERTS_CACHE", str(tmp_path))
    out = tmp_path / "out"
    result = runner.invoke(app, ["reproduce", "all", "--quick", "--out", str(out)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert {p.name for p in out.glob("*.svg")} == {"selection-scheme.svg"}
    assert "selection-scheme: " in result.output
    assert "not run: concrete is not present; try `gpexperts datasets --download concrete`" in result.output


def test_interrupt_reports_that_finished_runs_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_experiment", interrupted)
    result = runner.invoke(app, ["reproduce", "cost", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 130
    assert "the same command continues" in result.output


def test_the_page_of_claims_is_written_from_finished_runs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    result = runner.invoke(app, ["reproduce", "--page", str(page), "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert page.read_text(encoding="utf-8").startswith("# ")
    assert "The page is in" in result.output
