"""benchmarks/README.md says what the results say."""

from __future__ import annotations

import pytest

import common
import table


@pytest.mark.parametrize(("title", "name", "section"), table.SECTIONS, ids=lambda value: str(value)[:20])
def test_a_section_is_that_of_its_results(title: str, name: str, section, monkeypatch) -> None:
    """After a benchmark, or a change of this page, write it: `python benchmarks/peers.py --table`."""
    for draw in ("draw_peers", "draw_scale"):
        monkeypatch.setattr(table, draw, lambda results: None)
    page = (common.HERE / "README.md").read_text(encoding="utf-8")
    assert f"## {title}\n\n{section(common.rows(name))}\n" in page


def test_the_page_names_every_benchmark() -> None:
    commands = {path.name for path in common.HERE.glob("*.py") if "if __name__" in path.read_text("utf-8")}
    assert all(f"`python benchmarks/{name}`" in table.INTRODUCTION for name in commands)
