"""Every Python block of the documentation runs, and the extension page keeps its promise of brevity."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.is_file()]
BLOCK = re.compile(r"^(?P<skip><!-- no-run -->\s*\n)?```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[int, str]]:
    """Line number and text of every block that is meant to run."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start("code")), match["code"])
        for match in BLOCK.finditer(text)
        if not match["skip"]
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch) -> None:
    """Blocks of one page share a namespace, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A bound that was reached is no fault of a page.
        warnings.filterwarnings("ignore", message="These hyperparameters ended at a bound")
        for line, code in blocks(page):
            exec(compile("\n" * line + code, str(page), "exec"), namespace)


def test_each_extension_takes_fewer_than_thirty_lines() -> None:
    code = [code for _, code in blocks(ROOT / "docs" / "extending.md") if "class " in code]
    assert len(code) == 3
    assert all(len(block.strip().splitlines()) < 30 for block in code)
