"""Selection of all experts."""

from __future__ import annotations

import numpy as np
import pytest

from gpexperts.selection import AllSelector, ExpertsView


def test_all_experts_are_selected(view: ExpertsView, queries: np.ndarray) -> None:
    assert (AllSelector().fit(view).select(queries, 5) == np.arange(5)).all()
    with pytest.raises(ValueError, match="uses all 5 experts, but n_selected resolves to 3"):
        AllSelector().fit(view).select(queries, 3)
