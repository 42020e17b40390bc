"""Text from files cannot steer a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.text import printable, printable_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b31m", "\\x9b31m"),  # a control sequence in one character
        ("\u202egpj.exe\u2066", "\\u202egpj.exe\\u2066"),  # turns the order of what follows
        ("\u200b\ufeff\ud800", "\\u200b\\ufeff\\ud800"),
        ("Größe [m²] 面积", "Größe [m²] 面积"),
    ],
)
def test_characters_that_steer_a_terminal_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_any_text_becomes_one_printable_line(text: str) -> None:
    assert printable(text).isprintable()
    assert text.isprintable() == (printable(text) == text)


@given(st.dictionaries(st.text(), st.text()))
def test_json_means_the_same(value: dict[str, str]) -> None:
    shown = printable_json(value)
    assert json.loads(shown) == value
    assert all(line.isprintable() for line in shown.split("\n"))
