"""Scores of a predictive distribution: error of the mean, log density, and coverage of the intervals.

`std` is always the standard deviation of a new observation, as `predict(X, return_std=True)` gives it.
Arrays are (n,) or, for several outputs, (n, n_outputs); scores are averaged over all entries, each
output being standardised by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri, stdtrit
from sklearn.utils.validation import check_consistent_length

from gpexperts.exceptions import TooFewRowsError
from gpexperts.validation import is_number

__all__ = [
    "LEVELS",
    "Scores",
    "Width",
    "checked_level",
    "coverage",
    "crps",
    "gaussian_log_density",
    "gaussian_width",
    "interval_score",
    "msll",
    "nlpd",
    "score",
    "share_inside",
    "smse",
    "student_width",
]

Width = Callable[[float, np.ndarray], Any]
"""Level and std (n,) ↦ half the width of the intervals in standard deviations, a number or (n,)."""
LEVELS = (0.5, 0.9, 0.95, 0.99)
"""Levels of the intervals whose coverage `score` reports."""


def smse(y: ArrayLike, mean: ArrayLike) -> float:
    """Standardised mean squared error: the share of the test targets' variance left unexplained.

    Parameters
    ----------
    y, mean : array-like of shape (n,) or (n, n_outputs)
        Test targets and predictions.

    Returns
    -------
    float
        mean((y − mean)²) / var(y), with ddof 0. 1 is the trivial predictor, 0 perfection.
    """
    y_, mean_ = _arrays(y=y, mean=mean)
    variance = y_.var(axis=0)
    if np.any(variance == 0):
        raise ValueError("smse is not defined: all test targets are equal, their variance is 0.")
    return float(np.mean(np.mean((y_ - mean_) ** 2, axis=0) / variance))


def nlpd(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Negative log predictive density, averaged: mean[½ log(2πV) + (y − m)²/2V], V = std²."""
    y_, mean_, std_ = _with_std(y, mean, std)
    return float(np.mean(_gaussian_loss(y_, mean_, std_)))


def msll(y: ArrayLike, mean: ArrayLike, std: ArrayLike, y_train: ArrayLike) -> float:
    """Mean standardised log loss: NLPD less that of the trivial Gaussian fitted to the training targets.

    Parameters
    ----------
    y, mean, std : array-like of shape (n,) or (n, n_outputs)
    y_train : array-like of shape (n_train,) or (n_train, n_outputs)
        Training targets, whose mean and variance (ddof 0) define the trivial predictor.

    Returns
    -------
    float
        0 is the trivial predictor; more negative is better. About ½ log SMSE if well calibrated.
    """
    y_, mean_, std_ = _with_std(y, mean, std)
    (train,) = _arrays(y_train=y_train)
    spread = train.std(axis=0)
    if np.any(spread == 0):
        raise ValueError("msll is not defined: all training targets are equal, their variance is 0.")
    trivial = _gaussian_loss(y_, train.mean(axis=0), spread)
    return float(np.mean(_gaussian_loss(y_, mean_, std_) - trivial))


def crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Continuous ranked probability score of Gaussian predictions, in the target's units.

    Gneiting & Raftery (2007), eq. 21: σ [z (2Φ(z) − 1) + 2φ(z) − 1/√π], z = (y − m)/σ.
    """
    y_, mean_, std_ = _with_std(y, mean, std)
    z = (y_ - mean_) / std_
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return float(np.mean(std_ * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi))))


def coverage(
    y: ArrayLike, mean: ArrayLike, std: ArrayLike, level: float = 0.95, width: ArrayLike | None = None
) -> float:
    """Share of targets inside their central interval of the given level; `level` if calibrated.

    Parameters
    ----------
    y, mean, std : array-like of shape (n,) or (n, n_outputs)
    level : float
    width : float or array-like of the same shape, optional
        Half the interval's width in standard deviations; that of a Gaussian if not given.
    """
    width = np.asarray(gaussian_width(level) if width is None else width)
    y_, mean_, std_ = _with_std(y, mean, std)
    return float(np.mean(np.abs(y_ - mean_) <= width * std_))


def interval_score(y: ArrayLike, lower: ArrayLike, upper: ArrayLike, level: float = 0.95) -> float:
    """Interval score (Winkler), averaged, in the target's units; lower is better.

    Gneiting & Raftery (2007), eq. 43, for α = 1 − level: the width of the interval, and 2/α times the
    distance of a target that lies outside. It is smallest for the true quantiles.

    Parameters
    ----------
    y, lower, upper : array-like of shape (n,) or (n, n_outputs)
    level : float
    """
    alpha = 1.0 - checked_level(level)
    y_, lower_, upper_ = _arrays(y=y, lower=lower, upper=upper)
    outside = np.maximum(lower_ - y_, 0.0) + np.maximum(y_ - upper_, 0.0)
    return float(np.mean(upper_ - lower_ + 2.0 / alpha * outside))


def gaussian_log_density(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> np.ndarray:
    """Log density of every target under its Gaussian prediction, of the shape of y."""
    return -_gaussian_loss(*_with_std(y, mean, std))


def gaussian_width(level: float) -> float:
    """Half the width of a central Gaussian interval, in standard deviations."""
    return float(ndtri(0.5 + 0.5 * checked_level(level)))


def student_width(level: float, freedom: int) -> float:
    """Half the width of a central interval of Student's t distribution."""
    return float(stdtrit(freedom, 0.5 + 0.5 * checked_level(level)))


def _gaussian_loss(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    return 0.5 * np.log(2.0 * np.pi) + np.log(std) + 0.5 * ((y - mean) / std) ** 2


def _with_std(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y_, mean_, std_ = _arrays(y=y, mean=mean, std=std)
    if np.any(std_ <= 0):
        raise ValueError(f"std must be positive everywhere; its smallest value is {std_.min():g}.")
    return y_, mean_, std_


def _arrays(**named: ArrayLike) -> tuple[np.ndarray, ...]:
    arrays = {name: np.asarray(value, dtype=float) for name, value in named.items()}
    check_consistent_length(*arrays.values())
    shapes = {a.shape for a in arrays.values()}
    if len(shapes) > 1:
        listed = ", ".join(f"{name} {a.shape}" for name, a in arrays.items())
        raise ValueError(f"The arrays must have the same shape; got {listed}.")
    for name, a in arrays.items():
        if a.size == 0:
            raise ValueError(f"{name} is empty: there is nothing to score.")
        if not np.isfinite(a).all():
            raise ValueError(f"{name} holds NaN or infinity.")
    return tuple(arrays.values())


def checked_level(level: Any) -> float:
    """Return the probability of an interval as a float strictly between 0 and 1."""
    hint = f" For {level} %, give {float(level) / 100:g}." if is_number(level) and 1.0 < level < 100.0 else ""
    if not is_number(level):
        raise TypeError(f"level must be a number strictly between 0 and 1, got {level!r}.")
    if not 0.0 < float(level) < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}.{hint}")
    return float(level)


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
        """Return plain values, as JSON has them."""
        return {**self._asdict(), "coverage": {f"{level:g}": share for level, share in self.coverage.items()}}


def score(
    y: np.ndarray,
    mean: np.ndarray,
    std: np.ndarray,
    y_train: np.ndarray,
    seconds: float | None = None,
    width: Width | None = None,
    *,
    z: np.ndarray | None = None,
    z_std: np.ndarray | None = None,
    log_density: np.ndarray | None = None,
) -> Scores:
    """Score predictions of one target.

    Parameters
    ----------
    y, mean, std : ndarray of shape (n,)
    y_train : ndarray of shape (n_train,)
        For the trivial predictor of MSLL.
    seconds : float, optional
        What all n predictions took.
    width : callable, optional
        Of the intervals, where they are not the Gaussian ones of mean and std.
    z, z_std, log_density : ndarray of shape (n,), optional
        Standardised residuals, the std on which their width depends, and log densities of the targets, where
        the prediction is not Gaussian because the target was transformed. CRPS is always that of a Gaussian.
    """
    msll_, nlpd_ = msll(y, mean, std, y_train) if np.ptp(y_train) > 0 else None, nlpd(y, mean, std)
    if log_density is not None:
        exact = -float(np.mean(log_density))
        msll_, nlpd_ = None if msll_ is None else msll_ + exact - nlpd_, exact
    return Scores(
        n=len(y),
        smse=smse(y, mean) if np.ptp(y) > 0 else None,
        rmse=float(np.sqrt(np.mean((y - mean) ** 2))),
        msll=msll_,
        nlpd=nlpd_,
        crps=crps(y, mean, std),
        coverage={level: share_inside(y, mean, std, level, width, z, z_std) for level in LEVELS},
        seconds_per_query=None if seconds is None else seconds / len(y),
    )


def share_inside(
    y: Any,
    mean: Any,
    std: Any,
    level: float,
    width: Width | None = None,
    z: np.ndarray | None = None,
    z_std: np.ndarray | None = None,
) -> float | None:
    """Share of targets inside their interval; None if too few rows were held out.

    Standardised residuals z (n,) of transformed targets are compared with the width for their std z_std (n,).
    """
    try:
        if z is None or z_std is None:
            return coverage(y, mean, std, level, None if width is None else width(level, std))
        return float(np.mean(np.abs(z) <= (gaussian_width(level) if width is None else width(level, z_std))))
    except TooFewRowsError:
        return None
