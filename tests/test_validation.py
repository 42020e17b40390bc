"""Checks of single parameters."""

from __future__ import annotations

import numpy as np
import pytest

from gpexperts.aggregation import AGGREGATORS, NPAE, Aggregator, PoE
from gpexperts.validation import is_auto, is_number, member, positive_int


def test_is_auto_is_false_for_arrays() -> None:
    assert is_auto("auto")
    assert not is_auto(np.array(["auto"]))
    assert not is_auto(None)


@pytest.mark.parametrize("value", [1, 2.5, np.float32(1), np.int64(3), np.nan, np.inf])
def test_numbers(value) -> None:
    assert is_number(value)


@pytest.mark.parametrize("value", [True, "1", None, 1j, np.ones(1)])
def test_not_numbers(value) -> None:
    assert not is_number(value)


def test_positive_int() -> None:
    assert positive_int(np.int64(3), "n_experts") == 3
    for value in (2.0, True, "3"):
        with pytest.raises(TypeError, match="n_experts must be 'auto' or a positive int"):
            positive_int(value, "n_experts")
    with pytest.raises(ValueError, match="n_experts must be at least 1, got 0"):
        positive_int(0, "n_experts")


def test_member() -> None:
    given = NPAE(scale=2.0)
    assert member(given, AGGREGATORS, Aggregator, "aggregation") is given
    assert isinstance(member("poe", AGGREGATORS, Aggregator, "aggregation"), PoE)
    with pytest.raises(ValueError, match="Unknown aggregation 'mean'; known names are 'poe'"):
        member("mean", AGGREGATORS, Aggregator, "aggregation")
    with pytest.raises(TypeError, match="or an instance of Aggregator, got <class"):
        member(NPAE, AGGREGATORS, Aggregator, "aggregation")
