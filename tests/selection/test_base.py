"""The check of a selector's result."""

from __future__ import annotations

import numpy as np
import pytest

from gpexperts.selection.base import checked_index, row_chunks


def test_a_valid_index_is_returned() -> None:
    index = np.array([[2, 0], [1, -1]])
    np.testing.assert_array_equal(checked_index(index, 2, 3), index)
    assert checked_index(index[:0], 0, 3).shape == (0, 2)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([[0.0, 1.0]], "must be an int array of shape"),
        ([0, 1], "must be an int array of shape"),
        ([[0], [1]], "must be an int array of shape"),
        ([[0, 3]], "must hold numbers from −1 to 2"),
        ([[0, -2]], "must hold numbers from −1 to 2"),
        ([[-1, -1]], "leaves a query without an expert"),
        ([[1, 0, 1]], "selects an expert twice"),
    ],
)
def test_an_invalid_index_is_refused(index: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_index(np.array(index), 1, 3)


def test_row_chunks_cover_all_rows_once() -> None:
    rows = np.arange(25)
    chunks = [rows[chunk] for chunk in row_chunks(25, 500_000)]
    assert len(chunks) > 1
    np.testing.assert_array_equal(np.concatenate(chunks), rows)
