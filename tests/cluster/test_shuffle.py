"""From blocks of rows to groups of experts."""

from __future__ import annotations

import numpy as np
from gpexperts.cluster.shuffle import BUNDLE_BYTES, GROUPS_PER_BUNDLE, bundles
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(1, 2000), st.integers(1, 5000), st.integers(0, 2 * BUNDLE_BYTES))
def test_bundles_hold_every_group_once_and_busy_every_worker(
    n_groups: int, n_workers: int, group_bytes: int
) -> None:
    borders = bundles(n_groups, n_workers, group_bytes)
    sizes = np.diff(borders)
    assert borders[0] == 0
    assert borders[-1] == n_groups
    assert 1 <= sizes.min() <= sizes.max() <= GROUPS_PER_BUNDLE
    assert len(sizes) >= min(n_groups, n_workers)
    assert sizes.max() == 1 or sizes.max() * group_bytes <= BUNDLE_BYTES
