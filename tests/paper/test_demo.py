from __future__ import annotations

from pathlib import Path

from gpexperts.paper.demo import compare, draw


def test_demo_scores_five_methods_and_writes_a_figure(tmp_path: Path) -> None:
    rows = compare(n=300, seed=1)
    scores = [row for row in rows if "smse" in row]
    assert [row["method"] for row in scores] == ["NPAE", "GGM", "KNN", "DNN", "full GP"]
    assert all({"msll", "coverage99", "fit_seconds", "predict_seconds"} <= set(row) for row in scores)
    draw(rows, tmp_path / "new" / "demo.png")
    assert (tmp_path / "new" / "demo.png").read_bytes().startswith(b"\x89PNG")
