"""All scores of a set of predictions at once: what `gpexperts evaluate` prints and the report shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpexperts.exceptions import TooFewRowsError
from gpexperts.metrics import coverage, crps, gaussian_width, msll, nlpd, smse

__all__ = ["LEVELS", "Scores", "Width", "score", "share_inside"]

Width = Callable[[float], float]
"""Level ↦ half the width of an interval, in standard deviations."""
LEVELS = (0.5, 0.9, 0.95, 0.99)


class Scores(NamedTuple):
    """How good predictions are; None where a score is not defined (all targets equal)."""

    n: int
    smse: float | None
    rmse: float
    msll: float | None
    nlpd: float
    crps: float
    coverage: dict[float, float | None]
    """Share of targets inside their interval, for each of `LEVELS`."""
    seconds_per_query: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON knows them."""
        return {**self._asdict(), "coverage": {f"{level:g}": share for level, share in self.coverage.items()}}


def score(
    y: np.ndarray,
    mean: np.ndarray,
    std: np.ndarray,
    y_train: np.ndarray,
    seconds: float | None = None,
    width: Width = gaussian_width,
) -> Scores:
    """Score predictions of one target.

    Parameters
    ----------
    y, mean, std : ndarray of shape (n,)
    y_train : ndarray of shape (n_train,)
        For the trivial predictor of MSLL.
    seconds : float, optional
        What all n predictions took.
    width : callable
        Of the intervals, where they are not the Gaussian ones of mean and std.
    """
    return Scores(
        n=len(y),
        smse=smse(y, mean) if np.ptp(y) > 0 else None,
        rmse=float(np.sqrt(np.mean((y - mean) ** 2))),
        msll=msll(y, mean, std, y_train) if np.ptp(y_train) > 0 else None,
        nlpd=nlpd(y, mean, std),
        crps=crps(y, mean, std),
        coverage={level: share_inside(y, mean, std, level, width) for level in LEVELS},
        seconds_per_query=None if seconds is None else seconds / len(y),
    )


def share_inside(y: Any, mean: Any, std: Any, level: float, width: Width) -> float | None:
    """Share of targets inside their interval; None if too few rows were held out for one."""
    try:
        return coverage(y, mean, std, level, width(level))
    except TooFewRowsError:
        return None
