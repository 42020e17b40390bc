"""Summaries of columns and the standardizer, at any size a double can hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.scaling import FAR, ColumnSummary, Standardizer, check_magnitudes, scaled_offsets

A = np.random.default_rng(0).normal([3.0, -50.0, 1e8], [1.0, 20.0, 1.0], size=(90, 3))


def test_a_summary_against_numpy() -> None:
    summary = ColumnSummary.of(A)
    np.testing.assert_allclose(summary.mean, A.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(summary.std, A.std(axis=0), rtol=1e-7)
    np.testing.assert_array_equal((summary.low, summary.high), (A.min(axis=0), A.max(axis=0)))


@given(cuts=st.lists(st.integers(0, 90), max_size=4))
def test_the_pieces_of_a_summary_do_not_matter(cuts: list[int]) -> None:
    """Also to the last bit of the standardizer: the same rows give the same model."""
    whole = ColumnSummary.of(A)
    pieces = ColumnSummary.combined([ColumnSummary.of(piece) for piece in np.split(A, sorted(cuts))])
    assert pieces.n == whole.n
    np.testing.assert_allclose(pieces.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(pieces.std, whole.std, rtol=1e-6)
    one, other = (Standardizer.of(s) for s in (whole, pieces))
    np.testing.assert_array_equal(one.scale[:2], other.scale[:2])
    np.testing.assert_array_equal(one.shift[:2], other.shift[:2])


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_standardised_columns_have_zero_mean_and_unit_variance(size: float) -> None:
    B = size * A[:, :2]
    scale = Standardizer.of(ColumnSummary.of(B))
    Z = scale.transform(B)
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-8)
    np.testing.assert_allclose(Z.std(axis=0), 1.0, rtol=1e-8)
    np.testing.assert_allclose(scale.restore(Z), B, rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e-300, 1e300])
def test_a_constant_column_becomes_zero(value: float) -> None:
    summary = ColumnSummary.of(np.full((1000, 1), value))
    assert summary.constant.all()
    assert summary.spread == 1.0
    np.testing.assert_array_equal(Standardizer.of(summary).transform(np.full((2, 1), value)), 0.0)


def test_far_values_are_clipped() -> None:
    np.testing.assert_array_equal(scaled_offsets(np.array([1e300, -1e300, 1.0]), 0.0, 1e-20)[:2], [FAR, -FAR])


def test_the_identity_changes_nothing() -> None:
    np.testing.assert_array_equal(Standardizer.identity(3).transform(A), A)


def test_sizes_whose_squares_overflow_are_refused() -> None:
    fine = ColumnSummary.of(A)
    check_magnitudes(fine, fine)
    with pytest.raises(ValueError, match=r"X has values of size .*e\+200"):
        check_magnitudes(ColumnSummary.of(1e200 * A[:, :1] / np.abs(A[:, :1]).max()), fine)
    with pytest.raises(ValueError, match=r"y has values of size .* above"):
        check_magnitudes(fine, ColumnSummary.of(1e-200 * A[:, :1]))
