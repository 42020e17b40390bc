"""The site is complete: every public name, every warning and error, every page in the contents."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

from gpexperts import exceptions

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PUBLIC = (
    "gpexperts", "gpexperts.aggregation", "gpexperts.effects", "gpexperts.exceptions", "gpexperts.federated",
    "gpexperts.inspection", "gpexperts.metrics", "gpexperts.partition", "gpexperts.plot", "gpexperts.report",
    "gpexperts.selection", "gpexperts.serve",
)  # fmt: skip
"""Modules whose names are public."""


def sections() -> dict[str, list[str]]:
    """The names that the reference lists, by module."""
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    found = re.findall(r"currentmodule:: ([\w.]+)\n\n.*?:toctree: generated\n\n(.*?)```", page, re.DOTALL)
    return {module: names.split() for module, names in found}


def public_names(module: str) -> list[str]:
    """The names in `__all__`, read from the source: some modules need extras that are not installed here."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [name for name in ast.literal_eval(node.value) if name != "__version__"]
    raise AssertionError(f"{module} has no __all__")


@pytest.mark.parametrize("module", PUBLIC)
def test_the_reference_lists_every_public_name(module: str) -> None:
    assert sorted(sections()[module]) == sorted(public_names(module))


def test_the_reference_lists_no_other_module() -> None:
    assert set(sections()) == set(PUBLIC)


def test_every_warning_and_error_has_a_cause_and_a_cure() -> None:
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.*?) ?\|$", page, re.MULTILINE)
    described = {name for name, cause, _ in rows if cause}
    bases = {"GpexpertsWarning"}
    assert "`gpexperts.exceptions.GpexpertsWarning`" in page
    assert described == set(exceptions.__all__) - bases
    assert {name for name, _, cure in rows if not cure} <= {"ModelFileError"}


def test_every_page_is_in_the_contents() -> None:
    listed = {"index"}
    for page in DOCS.glob("*.md"):
        for entries in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            listed |= {line.strip() for line in entries.splitlines() if line.strip() and line[0] != ":"}
    pages = {page.stem for page in DOCS.glob("*.md")}
    assert listed - {"gallery/index"} == pages


WRITTEN = {"index", "guide", "api", "benchmarks", "reproduction"}
"""Pages of links, or written by a program."""


@pytest.mark.parametrize("page", sorted({page.stem for page in DOCS.glob("*.md")} - WRITTEN))
def test_a_page_opens_with_what_the_reader_will_be_able_to_do(page: str) -> None:
    _, opening, *_ = (DOCS / f"{page}.md").read_text(encoding="utf-8").split("\n\n")
    assert re.match(r"After th(is page|ese pages) you can ", opening)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("plot_*.py")), ids=lambda p: p.stem)
def test_examples_are_short(example: Path) -> None:
    """They run when the site is built."""
    text = example.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 60
    assert "plt.show()" in text
    assert inspect.cleandoc(text).startswith('"""\n')
