"""Trends: a regressor whose prediction is the mean that experts correct, one more input of theirs, or both.

`regressors`
    the regressor that a setting names, and what is kept of a fitted one;
`trees`
    boosted trees as plain arrays, which a model file can hold;
`effects`
    boosted trees after a ridge regression, for categories with many levels;
`sparse`
    a sparse GP, whose inducing points summarise all rows;
`crossfit`
    predictions for the training rows by regressors that have not seen them;
`fitted`
    the fitted trend: what it adds to queries and takes from targets.
"""

from gpexperts.trend.crossfit import (
    FOLDS,
    CrossFitted,
    FoldedRows,
    cross_fit,
    cross_fit_sparse,
    draw_folds,
)
from gpexperts.trend.fitted import ROLES, FittedTrend, TrendValues

__all__ = [
    "FOLDS",
    "ROLES",
    "CrossFitted",
    "FittedTrend",
    "FoldedRows",
    "TrendValues",
    "cross_fit",
    "cross_fit_sparse",
    "draw_folds",
]
