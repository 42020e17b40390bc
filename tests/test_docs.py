"""Every Python block of the documentation runs, and each example of an extension is short."""

from __future__ import annotations

import re
import tomllib
import warnings
from pathlib import Path

import pytest

from tests.problems import choose_and_train_quickly

ROOT = Path(__file__).resolve().parents[1]
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.is_file()]
PROSE = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md"]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
TEST_FILE = re.compile(r"`(tests/[\w/]+\.py|(?:\w+/)*test_\w+\.py)`")
NOT_PLAIN = re.compile(
    r"\b(asks?|asked|says?|said|speaks?|tells?|told|whom|nobody|everybody|honest|teach(es)?|surprises?|widens?"
    r"|contradicts?|brought|knows?)\b",
    re.IGNORECASE,
)
"""Words for people. Experts are models: they are selected, evaluated and weighted, and they predict."""
BLOCK = re.compile(r"^(?P<skip><!-- no-run -->\s*\n)?```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[int, str]]:
    """Line number and text of every block that is meant to run."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start("code")), match["code"])
        for match in BLOCK.finditer(text)
        if not match["skip"]
    ]


@pytest.fixture(params=["quick", pytest.param("as written", marks=pytest.mark.slow)])
def smaller(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Whether a page runs, not how well its models are trained: few steps, rows and processes."""
    if request.param == "as written":
        return {}
    choose_and_train_quickly(monkeypatch)
    return {"6000": "700", "LocalCluster(": "LocalCluster(processes=False, "}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs(page: Path, smaller: dict[str, str], tmp_path: Path, monkeypatch) -> None:
    """Blocks of one page share a namespace, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A bound that was reached is no fault of a page.
        warnings.filterwarnings("ignore", message="These hyperparameters ended at a bound")
        # Dask writes Parquet so, with pandas 3.1.
        warnings.filterwarnings("ignore", message="The inplace keyword in DataFrame")
        for line, code in blocks(page):
            for written, quicker in smaller.items():
                code = code.replace(written, quicker)
            exec(compile("\n" * line + code, str(page), "exec"), namespace)


def test_each_extension_takes_fewer_than_thirty_lines() -> None:
    code = [code for _, code in blocks(ROOT / "docs" / "extending.md") if "class " in code]
    assert len(code) == 3
    assert all(len(block.strip().splitlines()) < 30 for block in code)


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    missing = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    tests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    missing += [
        name for name in TEST_FILE.findall(text) if not any(f"/{t}".endswith(f"/{name}") for t in tests)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_words_of_a_page_are_plain(page: Path) -> None:
    text = re.sub(r"`[^`]*`", "", FENCED.sub("", page.read_text(encoding="utf-8")))
    assert [match[0] for match in NOT_PLAIN.finditer(text)] == []


def test_the_architecture_page_has_the_layers_that_are_checked() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("| layer | content |\n| --- | --- |\n")[2].partition("\n\n")[0]
    listed = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()]
    (contract,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert listed == [layer.split(" | ") for layer in contract["layers"]]


def test_the_architecture_page_names_modules_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = {
        name
        for name in re.findall(r"`([a-z_/]+(?:\.py|/))`", page)
        if not name.startswith(("tests/", "src/"))
    }
    assert len(named) > 20
    assert [
        name for name in sorted(named - {"__init__.py"}) if not (ROOT / "src/gpexperts" / name).exists()
    ] == []
