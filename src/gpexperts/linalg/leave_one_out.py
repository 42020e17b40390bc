"""Leave-one-out predictions of a Gaussian process from one factorisation of all its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["LeaveOneOut", "squared_z_without", "variance_ratio"]

_PSEUDO_ROWS = 16.0
"""Weight of the average variance ratio of all rows, and of 1 in that average, in rows at the query."""


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


def squared_z_without(
    P: np.ndarray, alpha: np.ndarray, precision: np.ndarray, left_out: np.ndarray
) -> Iterator[np.ndarray]:
    """Squared standardised leave-one-out residuals of the other rows, if one more row is left out.

    Without row t, α' = α − P_·t α_t / P_tt and [C'⁻¹]_rr = P_rr − P_rt² / P_tt, with P = C⁻¹.

    Parameters
    ----------
    P : ndarray of shape (e, m)
        Rows of C⁻¹: one for each row that is left out.
    alpha : ndarray of shape (p, m)
        C⁻¹ y of each output.
    precision : ndarray of shape (m,)
        Diagonal of C⁻¹.
    left_out : ndarray of int, shape (e,)

    Yields
    ------
    z2 : ndarray of shape (e, m)
        Of each output in turn; 0 for the row that is left out.
    """
    each = np.arange(len(P))
    q = P / P[each, left_out][:, None]
    remaining = precision - q * P
    remaining[each, left_out] = 1.0
    for of_output in alpha:
        z2 = (of_output - q * of_output[left_out, None]) ** 2 / remaining
        z2[each, left_out] = 0.0
        yield z2


def variance_ratio(
    near_sum: np.ndarray, near: np.ndarray, whole_sum: np.ndarray, whole: np.ndarray
) -> np.ndarray:
    """Mean of z² by nearness, shrunk to the mean over all rows, and that to 1.

    Parameters
    ----------
    near_sum, near : ndarray
        Sum of z² times the nearness of its row, and the sum of the nearness.
    whole_sum, whole : ndarray
        The same with the weights of the rows.
    """
    average = (_PSEUDO_ROWS + whole_sum) / (_PSEUDO_ROWS + whole)
    return np.asarray((_PSEUDO_ROWS * average + near_sum) / (_PSEUDO_ROWS + near))
