"""Scores of a predictive distribution: error of the mean, log density, and honesty of the intervals.

`std` is always the standard deviation of a new observation, as `predict(X, return_std=True)` gives it.
Arrays are (n,) or, for several outputs, (n, n_outputs); scores are averaged over all entries, each
output being standardised by itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_consistent_length

from gpexperts.settings import checked_level

__all__ = ["coverage", "crps", "msll", "nlpd", "smse"]


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
    y: ArrayLike, mean: ArrayLike, std: ArrayLike, level: float = 0.95, width: float | None = None
) -> float:
    """Share of targets inside their central interval of the given level; `level` if honest.

    Parameters
    ----------
    y, mean, std : array-like of shape (n,) or (n, n_outputs)
    level : float
    width : float, optional
        Half the interval's width in standard deviations; that of a Gaussian if not given.
    """
    width = gaussian_width(level) if width is None else width
    y_, mean_, std_ = _with_std(y, mean, std)
    return float(np.mean(np.abs(y_ - mean_) <= width * std_))


def gaussian_width(level: float) -> float:
    """Half the width of a central Gaussian interval, in standard deviations."""
    return float(ndtri(0.5 + 0.5 * checked_level(level)))


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
