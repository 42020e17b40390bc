"""Leave-one-out predictions of a Gaussian process from one factorisation of all its rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["LeaveOneOut"]


class LeaveOneOut(NamedTuple):
    """Each row predicted from all other rows (Rasmussen & Williams 2006, eqs. 5.10 to 5.12)."""

    alpha: np.ndarray
    """C⁻¹ y of each output, (p, m)."""
    precision: np.ndarray
    """Diagonal of C⁻¹, (m,)."""

    @property
    def residual(self) -> np.ndarray:
        """Target minus leave-one-out mean, α_i / [C⁻¹]_ii, (p, m)."""
        return self.alpha / self.precision

    @property
    def variance(self) -> np.ndarray:
        """Leave-one-out variance of the target, 1 / [C⁻¹]_ii, (m,)."""
        return 1.0 / self.precision

    @property
    def squared_z(self) -> np.ndarray:
        """Squared residual relative to its variance, α_i² / [C⁻¹]_ii, (p, m); 1 on average if C is right."""
        return self.alpha**2 / self.precision
