"""What a fitted estimator predicts for each query: means, standard deviations, intervals and densities."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpexperts.engines.dask_types import is_collection
from gpexperts.experts.local import LocalExperts
from gpexperts.explanation import Explanation
from gpexperts.fitted import FittedAttributes
from gpexperts.inputs import query_inputs
from gpexperts.joint.covariance import predicted_covariance
from gpexperts.lazy import lazy_interval, predict_lazily
from gpexperts.metrics import gaussian_log_density
from gpexperts.predictor import Predictor
from gpexperts.progress import reports_progress

__all__ = ["Predictions"]


class Predictions(FittedAttributes):
    """The part of the estimator whose results for a query do not depend on other queries."""

    def _queries(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if is_collection(X):
            raise ValueError(
                "X is a dask collection, but the experts are in this process. Load it with X.compute(), or "
                "predict each of its partitions."
            )
        return query_inputs(self, X)

    @overload
    def predict(
        self,
        X: Any,
        return_std: Literal[False] = False,
        latent: bool = False,
        *,
        return_interval: None = None,
    ) -> np.ndarray: ...
    @overload
    def predict(
        self, X: Any, return_std: Literal[True], latent: bool = False, *, return_interval: None = None
    ) -> tuple[np.ndarray, np.ndarray]: ...
    @overload
    def predict(self, X: Any, *, return_interval: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
    @overload
    def predict(self, X: Any, return_std: bool = False, latent: bool = False, *, return_cov: bool) -> Any: ...
    @reports_progress
    def predict(
        self,
        X: Any,
        return_std: bool = False,
        latent: bool = False,
        *,
        return_cov: bool = False,
        return_interval: float | None = None,
    ) -> Any:
        """Predict at new inputs.

        At most one of `return_std`, `return_cov` and `return_interval` may be set.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            For a model on a cluster also a dask array or frame; the result is then lazy. Gaps, and levels
            that training has not seen, are predicted with a `ColumnWarning` that counts them.
        return_std : bool
            Whether to return standard deviations too.
        latent : bool
            Whether they are those of the noise-free function instead of a new observation. Only the latter
            are changed by ``calibrate="scale"``. With `target_transform` the mean is that of the noise-free
            function too.
        return_interval : float, optional
            A probability, such as 0.95: return the ends of the intervals of `predict_interval` too. This also
            works as ``pipeline.predict(X, return_interval=0.95)``.
        return_cov : bool
            Whether to return the covariance of the prediction errors instead: for NPAE and the own expert.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, n_outputs)
        std : ndarray of the same shape, if `return_std`
        cov : ndarray of shape (n, n) or (n, n, n_outputs), if `return_cov`
        lower, upper : ndarrays of the same shape, if `return_interval`

        Raises
        ------
        MemoryBudgetError
            If the covariances do not fit the memory budget; `predict_sum` needs no matrix.
        """
        if return_cov and return_std:
            raise RuntimeError(
                "return_std and return_cov cannot both be True. The standard deviations are the square "
                "roots of the diagonal of the covariance."
            )
        if return_interval is not None and (return_std or return_cov or latent):
            given = next(
                name
                for name, value in (("return_std", return_std), ("return_cov", return_cov), ("latent", True))
                if value
            )
            raise ValueError(
                f"return_interval={return_interval} and {given}=True were given; at most one of return_std, "
                "return_cov and return_interval may be set, and intervals are those of a new observation. "
                "Call predict twice for both."
            )
        if return_interval is not None:
            return self._interval(X, return_interval)
        predictor = self.predictor_
        if not return_cov:
            return self._predicted(predictor, X, return_std=return_std, latent=latent)
        mean, covariance = predicted_covariance(predictor, self._queries(X), latent)
        return predictor.model.shaped(mean), predictor.model.shaped(covariance)

    def _interval(self, X: Any, level: Any) -> tuple[Any, Any, Any]:
        """Mean and the ends of the intervals."""
        predictor = self.predictor_  # one for width, mean and std
        model = predictor.model
        if not self._is_lazy(X):
            mean, lower, upper = predictor.interval(self._queries(X), level)
            return model.shaped(mean), model.shaped(lower), model.shaped(upper)
        widths = predictor.interval_widths(level)
        mean, std = self._predicted(predictor, X, return_std=True)
        if model.target is None:
            return mean, *lazy_interval(mean, std, widths)
        names = self._known_names()
        return mean, *predict_lazily(predictor, X, names, return_std=True, latent=False, widths=widths)

    @reports_progress
    def log_density(self, X: Any, y: Any) -> np.ndarray:
        """Return the log of the predictive density of observed targets.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
        y : array-like of shape (n,) or (n, n_outputs)

        Returns
        -------
        ndarray of the shape of y
            log N(y; mean, std²) with mean and std of `predict`; with `target_transform` that of the
            transformed target, plus the log of the slope.
        """
        predictor = self.predictor_
        model = predictor.model
        if model.target is None:
            mean, std = self._predicted(predictor, X, return_std=True)
            return gaussian_log_density(y, mean, std)
        Z, targets = self._queries(X), np.asarray(y, dtype=float)
        if targets.shape != ((len(Z),) if model.one_output else (len(Z), model.n_outputs)):
            raise ValueError(f"X has {len(Z)} rows, and y has the shape {targets.shape}.")
        return np.asarray(model.shaped(predictor.scored(Z, targets.reshape(len(Z), -1)).log_density))

    def _predicted(self, predictor: Predictor, X: Any, *, return_std: bool, latent: bool = False) -> Any:
        model = predictor.model
        if self._is_lazy(X):
            return predict_lazily(predictor, X, self._known_names(), return_std=return_std, latent=latent)
        mean, std = predictor.predict(self._queries(X), return_std=return_std, latent=latent)
        return (model.shaped(mean), model.shaped(std)) if return_std else model.shaped(mean)

    @reports_progress
    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that contain a new observation with the given probability.

        They are mean ± width · std, or with `target_transform` those of the transformed target, transformed
        back. Without `calibrate` the width is a quantile of |y − mean| / std of the held-out rows that chose
        the experts, in groups of rows with similar std; with too few rows for that, it is that of Student's t
        with n − 1 degrees of freedom, or of a Gaussian if the hyperparameters are given. With ``"scale"`` it
        is that of a Gaussian. With ``"conformal"`` it is also multiplied by a quantile for rows that nothing
        else has used: the probability then holds for any model, on average over new rows that are drawn like
        the training rows. With ``"jackknife"`` the width is such a quantile for training rows, each predicted
        without it.

        Parameters
        ----------
        X : array-like of shape (n, d)
        level : float
            The probability, strictly between 0 and 1.

        Returns
        -------
        lower, upper : ndarray of shape (n,) or (n, n_outputs)

        Raises
        ------
        TooFewRowsError
            With ``calibrate="conformal"``, if fewer than level / (1 − level) rows were held out.
        """
        _, lower, upper = self._interval(X, level)
        return lower, upper

    def _is_lazy(self, X: Any) -> bool:
        """Whether X is a collection that the cluster of the experts predicts."""
        return is_collection(X) and not isinstance(self.model_.experts, LocalExperts)

    def _known_names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def select(self, X: Any) -> np.ndarray:
        """Return the selected experts of each query, best first.

        Returns
        -------
        index : ndarray of int, shape (n, K)
            −1 pads where K varies.
        """
        return self.predictor_.select(self._queries(X))

    @reports_progress
    def explain(self, X: Any) -> Explanation:
        """Return the selected experts of each query, their predictions, and their weights.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        Explanation
        """
        return self.predictor_.explain(self._queries(X))
