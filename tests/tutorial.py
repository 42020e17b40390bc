"""Runs docs/tutorial.md as a reader would; `python -m tests.tutorial` also rewrites its outputs and picture.

Python blocks share a namespace; in a console block, a line that begins with `$` is a command, the lines
after it what it prints.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from gpexperts.cli import main
from tests.browser import FLAGS, chromium

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorial.md"
PICTURE = PAGE.parent / "images" / "report.png"
BLOCK = re.compile(r"^```(?P<language>python|console)\n(?P<body>.*?)^```", re.MULTILINE | re.DOTALL)


def command(line: str) -> str:
    """Run one line of a shell, of the few kinds the tutorial uses, and return what it prints."""
    name, *args = shlex.split(line)
    if name == "head":
        count, path = int(args[0][1:]), args[1]
        return "".join(Path(path).read_text(encoding="utf-8").splitlines(keepends=True)[:count])
    assert name == "gpexperts", line
    before, sys.argv = sys.argv, ["gpexperts", *args]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        try:
            main()
        except SystemExit as end:
            code = end.code
        finally:
            sys.argv = before
    printed = out.getvalue()
    assert code == 0 or printed.startswith("gpexperts: "), printed
    return printed


def run(text: str) -> str:
    """Run all blocks of a page in the current folder and return the page with what they print now."""
    namespace: dict[str, Any] = {"__name__": "tutorial"}

    def fresh(block: re.Match[str]) -> str:
        if block["language"] == "python":
            exec(compile(block["body"], str(PAGE), "exec"), namespace)
            return block[0]
        lines = [line for line in block["body"].splitlines() if line.startswith("$ ")]
        body = "".join(f"{line}\n{_trimmed(command(line[2:]))}" for line in lines)
        return f"```console\n{body}```"

    return BLOCK.sub(fresh, text)


def _trimmed(printed: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in printed.splitlines())


def words(text: str) -> list[str]:
    """What must not change: all but numbers, hashes, the drawing of tables, and what "auto" chose."""
    text = re.sub(r"^kernel θ.*?(?=^noise)|^chose .*?$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"[0-9a-f]{20,}", "#", text)
    text = re.sub(r"[─-╿\",]", " ", text)
    text = re.sub(r"[-−]?\d[\d.]*(e[-+]?\d+)?", "#", text)
    return re.sub(r"#[#\s]*(?=[#\s])", "# ", text).split()


def take_picture(page: Path, picture: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        view = browser.new_page(viewport={"width": 1180, "height": 1500})
        view.goto(page.as_uri())
        # Of all queries, the one whose answer owes least to any single expert.
        view.evaluate("""() => {
            const queries = JSON.parse(document.getElementById("data").textContent).queries;
            const loudest = queries.map((q) => Math.max(...q.weight));
            const chooser = document.getElementById("query");
            chooser.value = loudest.indexOf(Math.min(...loudest));
            chooser.dispatchEvent(new Event("change"));
        }""")
        view.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
        PAGE.write_text(run(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        PICTURE.parent.mkdir(exist_ok=True)
        take_picture(Path("report.html").resolve(), PICTURE)
