"""`gpexperts demo` prints a table and writes a figure."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from gpexperts.cli.app import app


def test_demo_prints_a_table_and_writes_a_figure(tmp_path: Path) -> None:
    out = tmp_path / "folder" / "demo.png"
    arguments = ["demo", "--n", "1500", "--out", str(out)]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert out.read_bytes().startswith(b"\x89PNG")
    errors = {}
    for line in result.output.splitlines():
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        if len(cells) == 6 and re.fullmatch(r"[\d.]+", cells[1]):
            errors[cells[0]] = float(cells[1])
    assert len(errors) == 5
    # As in the paper: a fixed set of experts is worse; the nearest ones are as good as all.
    npae, ggm, knn, dnn = (
        next(error for name, error in errors.items() if word in name)
        for word in ("NPAE", "GGM", "KNN", "DNN")
    )
    assert ggm > 1.5 * npae
    assert max(knn, dnn) < 1.2 * npae
