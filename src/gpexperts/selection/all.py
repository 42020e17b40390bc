"""No selection: every query uses every expert."""

from __future__ import annotations

import numpy as np

from gpexperts.selection.base import ExpertsView, Selector

__all__ = ["AllSelector"]


class AllSelector(Selector):
    """Select all experts, in the order of their numbers."""

    varies_by_query = False

    def fit(self, experts: ExpertsView) -> AllSelector:
        self.n_experts_ = experts.n_experts
        return self

    def select(self, X: np.ndarray, n_selected: int) -> np.ndarray:
        if n_selected != self.n_experts_:
            raise ValueError(
                f"selection='all' uses all {self.n_experts_} experts, but n_selected resolves to "
                f"{n_selected}. Leave n_selected='auto', or choose a selection such as 'knn'."
            )
        return np.tile(np.arange(self.n_experts_), (len(X), 1))

    def default_n_selected(self, n_experts: int) -> int:
        return n_experts
