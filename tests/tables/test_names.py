"""Names of columns in options."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.exceptions import TableError
from gpexperts.tables.names import quoted, require_columns, split_names

COLUMNS = ["id", "net, kg", " blank", 'say "x"', "a"]


def test_names_are_split_at_commas_unless_they_hold_them() -> None:
    assert split_names(["id, a"], COLUMNS) == ["id", "a"]
    assert split_names(["net, kg", "a"], COLUMNS) == ["net, kg", "a"]
    assert split_names(['"net, kg",id'], COLUMNS) == ["net, kg", "id"]
    assert split_names(["a", "a,id"], COLUMNS) == ["a", "id"]


@given(st.lists(st.text(st.characters(blacklist_characters="\r\n\0"), min_size=1), min_size=1, unique=True))
def test_quoted_names_are_read_as_one(names: list[str]) -> None:
    for name in names:
        if name.strip():
            assert split_names([quoted(name)], names) == [name]


def test_missing_columns_are_listed_with_a_hint() -> None:
    with pytest.raises(TableError, match=r"t.csv has no column b; its columns are .* in quotation marks"):
        require_columns(COLUMNS, ["a", "b"], "t.csv")
    with pytest.raises(TableError, match="--sep"):
        require_columns(["a;b"], ["a"], "t.csv")
