"""Rows held out of the experts: a tenth of the rows of some parts, predicted by experts without them.

Where there are few rows, further tenths follow. No expert is trained again: its factorisation is repeated
without the rows, with the same hyperparameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpexperts.engines.base import Engine
from gpexperts.experts.moments import ExpertMoments, Request
from gpexperts.experts.store import ExpertStore

__all__ = ["Held", "hold_out"]

MAX_PARTS = 100
SHARE = 0.1
ENOUGH = 2000
"""Held-out rows after which no further tenth is taken out."""
FEWEST = 50
"""Held-out rows below which nothing is chosen by them."""
MAX_SINGLE = 5000
"""Rows of a single expert beyond which it is not factorised again only to correct its variance."""
_MOST_EXPERTS = 8
"""Experts per query whose predictions of all held-out rows must fit the memory budget."""


class Held(NamedTuple):
    """Rows that were held out together, and the experts without them."""

    X: np.ndarray
    y: np.ndarray
    noise: np.ndarray
    """Weight and given noise of each row; see `row_noise`."""
    rest: ExpertStore
    select: Callable[[np.ndarray, int], np.ndarray]
    """Queries and K ↦ index, by a selector that has not seen the held-out rows."""

    def moments(self, n_selected: int, request: Request, engine: Engine) -> ExpertMoments:
        """Moments of the rest for the held-out rows."""
        index = np.empty((len(self.X), 0), dtype=np.int64)
        if n_selected:
            index = self.select(self.X, n_selected)
        return self.rest.gather(self.X, index, request, engine)


def hold_out(
    experts: ExpertStore,
    selection_of: Callable[[ExpertStore], Callable[[np.ndarray, int], np.ndarray]],
    *,
    budget: int,
    random_state: np.random.RandomState,
) -> list[Held]:
    """Hold out tenths of the rows of some parts; empty where there are too few rows.

    Parameters
    ----------
    experts : ExpertStore
    selection_of : callable
        Experts without some rows ↦ a selection: queries (n, d) and K ↦ index (n, K), best first.
    budget : int
        Bytes for work arrays.
    random_state : RandomState
    """
    if experts.n_experts == 1 and experts.sizes[0] > MAX_SINGLE:
        return []
    folds = _folds(experts, budget, random_state)
    if sum(map(len, folds)) < FEWEST:
        return []
    held = []
    for rows in folds:
        rest = experts.without(rows)
        held.append(Held(*experts.take(rows), rest, selection_of(rest)))
    return held


def _folds(experts: ExpertStore, budget: int, random_state: np.random.RandomState) -> list[np.ndarray]:
    """Positions to hold out together, in the order of experts, one array per fold.

    Each is a tenth of the rows of up to `MAX_PARTS` parts; no row is in two folds.
    """
    large = np.flatnonzero(experts.sizes >= 1 / SHARE)
    parts = np.sort(random_state.permutation(large)[:MAX_PARTS])
    orders = [experts.offsets[i] + random_state.permutation(int(experts.sizes[i])) for i in parts]
    affordable = budget // (8 * _MOST_EXPERTS * int(experts.sizes.max() + 1))
    limit = max(50, min(2 * ENOUGH, affordable))
    folds: list[np.ndarray] = []
    while parts.size and len(folds) < 1 / SHARE and sum(map(len, folds)) < ENOUGH:
        tenths = [order[(share := int(SHARE * len(order))) * len(folds) :][:share] for order in orders]
        folds.append(np.sort(random_state.permutation(np.concatenate(tenths))[:limit]))
    return folds
