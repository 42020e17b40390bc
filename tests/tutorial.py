"""Runs docs/tutorial.md; `python -m tests.tutorial` also rewrites its outputs and its figure.

Python blocks share a namespace. In a console block, a line that begins with `$` is a command, and the lines
after it are its output.
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
FIGURE = PAGE.parent / "images" / "report.png"
BLOCK = re.compile(r"^```(?P<language>python|console)\n(?P<body>.*?)^```", re.MULTILINE | re.DOTALL)


def command(line: str) -> str:
    """Run one line of a shell, `head` or `gpexperts`, and return its output."""
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
    """Run all blocks of a page in the current folder and return the page with their output."""
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
    """Return the words of a page without numbers, checksums, lines of tables, the kernel and the choices."""
    text = re.sub(r"^kernel .*?(?=^noise)|^chosen .*?(?=^given)", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"[0-9a-f]{20,}", "#", text)
    text = re.sub(r"[─-╿\",]", " ", text)
    text = re.sub(r"[-−]?\d[\d.]*(e[-+]?\d+)?", "#", text)
    return re.sub(r"#[#\s]*(?=[#\s])", "# ", text).split()


def draw_page(page: Path, figure: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        view = browser.new_page(viewport={"width": 1180, "height": 1500})
        view.goto(page.as_uri())
        # Pick the query whose largest weight is smallest.
        view.evaluate("""() => {
            const queries = JSON.parse(document.getElementById("data").textContent).queries;
            const largest = queries.map((q) => Math.max(...q.weight));
            const chooser = document.getElementById("query");
            chooser.value = largest.indexOf(Math.min(...largest));
            chooser.dispatchEvent(new Event("change"));
        }""")
        view.screenshot(path=figure)
        browser.close()


if __name__ == "__main__":
    os.environ["COLUMNS"] = "100"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
        PAGE.write_text(run(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        FIGURE.parent.mkdir(exist_ok=True)
        draw_page(Path("report.html").resolve(), FIGURE)
