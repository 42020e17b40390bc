"""benchmarks/README.md agrees with the results."""

from __future__ import annotations

import pytest

import common
import compare
import peers_section
import table


@pytest.mark.parametrize(("title", "name", "section"), table.SECTIONS, ids=lambda value: str(value)[:20])
def test_section_agrees_with_results(title: str, name: str, section, monkeypatch) -> None:
    """If it fails, write the page: `python benchmarks/peers.py --table`."""
    monkeypatch.setattr(peers_section, "draw_peers", lambda results: None)
    monkeypatch.setattr(table, "draw_scale", lambda results: None)
    page = (common.HERE / "README.md").read_text(encoding="utf-8")
    results = common.rows(name)
    if results:
        assert f"## {title}\n\n{section(results)}\n" in page
    else:  # not run yet
        assert f"## {title}\n" not in page


def test_page_lists_every_benchmark() -> None:
    commands = {path.name for path in common.HERE.glob("*.py") if "if __name__" in path.read_text("utf-8")}
    assert all(f"`python benchmarks/{name}`" in table.INTRODUCTION for name in commands)


def test_compare_pairs_runs_of_equal_seed() -> None:
    def runs(side: str, factor: float) -> list[dict[str, object]]:
        costs = dict.fromkeys(compare.COSTS, factor)
        scores = dict.fromkeys(compare.SCORES, 0.5)
        row = {"data": "concrete", "side": side, "status": "done", **scores}
        return [row | {"seed": s} | {name: (s + 1) * c for name, c in costs.items()} for s in range(3)]

    failed = {"data": "pol", "seed": 0, "side": "after", "status": "failed: no memory"}
    *_, ratios, pol = compare.table([*runs("before", 2.0), *runs("after", 3.0), failed]).splitlines()
    assert ratios.count("1.500") == len(compare.COSTS)
    assert pol.startswith("| pol | 0 | failed: no memory |")
