"""Separator, encoding and decimal mark of a CSV."""

from __future__ import annotations

import pytest

from gpexperts.exceptions import TableError
from gpexperts.tables.dialect import TableOptions, encoding_of, read_head

HEADS = {
    "commas": ("a,b,c\n1,2.5,x\n3,4.5,y\n", ",", "."),
    "semicolons": ("a;b;c\n1;2.5;x\n", ";", "."),
    "semicolons and decimal commas": ("a;b\n1,5;2,5\n3,25;4\n", ";", ","),
    "decimal commas and a comma in a name": ("a, net;b\n1,5;2,5\n3,5;4,5\n", ";", ","),
    "tabs": ("a\tb\n1\tx, y\n", "\t", "."),
    "bars": ("a|b\n1|2\n", "|", "."),
    "quoted separators": ('a,b\n"x;y;z",1\n"u;v;w",2\n', ",", "."),
    "one column": ("a\n1\n2\n", ",", "."),
    "text with commas": ("a;b\nx, y;1\nz;2\n", ";", "."),
}


@pytest.mark.parametrize("kind", HEADS)
def test_dialect_is_guessed(kind: str) -> None:
    text, sep, decimal = HEADS[kind]
    dialect = read_head(text, "t.csv", TableOptions()).dialect
    assert (dialect.sep, dialect.decimal) == (sep, decimal)


def test_options_override_the_guess() -> None:
    head = read_head("a;b,c\n1,5;2,x\n", "t.csv", TableOptions(sep=",", decimal="."))
    assert head.names == ["a;b", "c"]
    assert (head.dialect.sep, head.dialect.decimal) == (",", ".")
    assert read_head("a;b\n1;2\n", "t.csv", TableOptions(thousands=".")).dialect.decimal == ","


def test_encoding_is_guessed() -> None:
    for text, encoding in (
        ("é".encode(), "utf-8"),
        ("é".encode("utf-16"), "utf-16"),
        ("é".encode("utf-32"), "utf-32"),
        ("é".encode("latin-1"), "cp1252"),
        ("€".encode("cp1252"), "cp1252"),
    ):
        assert encoding_of(text, None, "t.csv") == encoding
    assert encoding_of("é".encode("latin-1"), "latin-1", "t.csv") == "iso8859-1"
    with pytest.raises(TableError, match="NUL bytes"):
        encoding_of(b"a\0b", None, "t.csv")
