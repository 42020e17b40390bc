"""Commands that must refuse a table or fail to write a file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

OPTIONS = (
    "-t",
    "price",
    "--drop",
    "id",
    "--config",
    "untrained.toml",
    "--n-experts",
    "2",
)


COMMANDS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "fit": lambda table: ("fit", table, *OPTIONS, "-o", "out.gpx"),
    "predict": lambda table: ("predict", "houses.gpx", table, "--keep", "id", "-o", "out.csv"),
    "evaluate": lambda table: ("evaluate", "houses.gpx", table),
    "report": lambda table: ("report", "houses.gpx", table, "-o", "out.html"),
}


OUTPUTS = ("out.gpx", "out.csv", "out.html")


HEADER = b"id,area,rooms,town,price\n"


ROWS = b"h1,50.5,2,north,100.5\nh2,60.5,3,south,120.5\nh3,70.5,4,west,140.5\nh4,80.5,1,west,150\n"


GOOD = HEADER + ROWS


def refusals(run, name: str, commands: tuple[str, ...] = tuple(COMMANDS)) -> list[str]:
    """Return the error of every command for a table; each is one line, and no file is changed."""
    for output in OUTPUTS:
        Path(output).write_text("precious")
    before = {file: os.stat(file).st_size for file in os.listdir()}
    messages = []
    for command in commands:
        ended = run(*COMMANDS[command](name))
        assert ended.code == 2, (command, ended)
        assert ended.err.startswith("gpexperts: "), (command, ended)
        assert "unexpected" not in ended.err, (command, ended)
        assert ended.err.count("\n") == 1
        assert ended.err.strip().isprintable()
        assert len(ended.err) < 2100
        assert {file: os.stat(file).st_size for file in os.listdir()} == before
        assert all(Path(output).read_text() == "precious" for output in OUTPUTS)
        messages.append(ended.err)
    return messages


def not_matching(words: str, messages: list[str]) -> list[str]:
    """Return the messages that do not match `words`."""
    return [line for line in messages if not re.search(words, line)]
