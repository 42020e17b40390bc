"""The regressor that `trend` names, and what is kept of it once it is fitted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

from gpexperts.engines.threads import blas_threads
from gpexperts.trend.effects import Linear, LinearAndTrees, RidgeThenTrees
from gpexperts.trend.sparse import SparseGP
from gpexperts.trend.trees import Trees, mean_of_trees, trees_of

__all__ = [
    "NAMES",
    "Linear",
    "Predictor",
    "fitted_regressor",
    "kept",
    "leaves_trees_open",
    "mean_of",
    "new_regressor",
    "resized",
    "takes_weights",
    "threads_for",
]

NAMES = ("linear", "boosting", "sparse")
FEW_ROWS, MOST_TREES = 10_000, 400
"""Up to so many rows, boosting has no early stopping, but at most so many trees."""
MANY_ROWS = 100_000
"""Beyond so many rows, trees have twice as many leaves."""
_ONE_THREAD = 20_000
"""Rows below which a regressor gets one thread: more are no faster, and on a busy machine much slower."""
_CHECKED = 1000
"""Rows on which boosted trees are compared with the regressor that they come from."""


Predictor = Linear | Trees | LinearAndTrees | SparseGP | Any
"""A fitted trend of one output: plain arrays, or a user's regressor."""


def new_regressor(trend: Any, n: int, seed: int, levels: np.ndarray | None = None) -> Any:
    """Return the unfitted regressor of a setting, for n rows.

    Of few rows, all grow the trees, and folds choose their number. Of more, a tenth stops their growth.
    `levels` (d,) are the columns of categories with many levels: before boosting, a ridge regression learns
    their effects.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor  # late: they import much
    from sklearn.linear_model import LinearRegression

    if isinstance(trend, str) and trend == "linear":
        return LinearRegression()
    if isinstance(trend, str) and trend == "boosting":
        few = leaves_trees_open(trend, n)
        trees = HistGradientBoostingRegressor(
            max_iter=MOST_TREES if few else 1000,
            learning_rate=0.08 if few else 0.06,
            max_leaf_nodes=15 if few else 127 if n <= MANY_ROWS else 255,
            max_features=1.0 if few else 0.7,
            min_samples_leaf=5 if few else 20,
            early_stopping=not few,
            n_iter_no_change=15,
            random_state=seed,
        )
        return trees if levels is None or not levels.any() or levels.all() else RidgeThenTrees(trees, levels)
    return clone(trend)


def resized(regressor: Any, n_trees: int, **settings: Any) -> Any:
    """Return an unfitted copy with another number of trees, and further settings of boosting."""
    prefix = "trees__" if isinstance(regressor, RidgeThenTrees) else ""
    changed = {"max_iter": n_trees, **settings}
    return clone(regressor).set_params(**{prefix + name: value for name, value in changed.items()})


def leaves_trees_open(trend: Any, n: int) -> bool:
    """Whether folds of n rows choose the number of trees."""
    return isinstance(trend, str) and trend == "boosting" and n <= FEW_ROWS


@contextmanager
def threads_for(n: int) -> Iterator[None]:
    """Give regressors of scikit-learn one thread while they fit or predict few rows."""
    if n >= _ONE_THREAD:
        yield
        return
    with threadpool_limits(1, user_api="openmp"), blas_threads(1):
        yield


def takes_weights(regressor: Any) -> bool:
    """Whether the `fit` of a regressor has a `sample_weight`."""
    return bool(has_fit_parameter(regressor, "sample_weight"))


def fitted_regressor(regressor: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Any:
    """Fit a clone to inputs X (n, d), targets y (n,) and weights (n,), where it takes them."""
    regressor = clone(regressor)
    given = {} if weight is None or not takes_weights(regressor) else {"sample_weight": weight}
    with threads_for(len(X)):
        return regressor.fit(X, y, **given)


def kept(regressor: Any, X: np.ndarray) -> Predictor:
    """Return what is kept of a fitted regressor: plain arrays where possible.

    X (n, d) are its training inputs.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression

    if type(regressor) is LinearRegression:
        return Linear(np.asarray(regressor.coef_, dtype=float), float(regressor.intercept_))
    some = X[:: max(1, len(X) // _CHECKED)]
    if type(regressor) is HistGradientBoostingRegressor:
        return _read(regressor, some) or regressor
    if type(regressor) is RidgeThenTrees:
        trees = _read(regressor.trees_, some[:, ~regressor.levels])
        if trees is not None:
            columns = np.flatnonzero(~regressor.levels)
            feature = np.where(trees.feature < 0, -1, columns[trees.feature])
            return LinearAndTrees(regressor.linear_, replace(trees, feature=feature, n_features=X.shape[1]))
    return regressor


def mean_of(regressors: Sequence[Any], X: np.ndarray) -> Predictor | None:
    """Return what predicts the mean of fitted boosting regressors, if all can be kept as plain arrays.

    X (n, d) are training inputs.
    """
    each = [kept(regressor, X) for regressor in regressors]
    trees: list[Any] = [one.trees if isinstance(one, LinearAndTrees) else one for one in each]
    linear = [one.linear for one in each if isinstance(one, LinearAndTrees)]
    if not all(isinstance(one, Trees) for one in trees):
        return None
    if not linear:
        return mean_of_trees(trees)
    coef = np.mean([one.coef for one in linear], axis=0)
    intercept = float(np.mean([one.intercept for one in linear]))
    return LinearAndTrees(Linear(coef, intercept), mean_of_trees(trees))


def _read(regressor: Any, X: np.ndarray) -> Trees | None:
    """The trees of boosting as plain arrays, compared on inputs X (k, d)."""
    with threads_for(len(X)):
        return trees_of(regressor, X)
