"""What a fitted estimator predicts about several points at once, and about the function itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpexperts.joint.covariance import WeightedSum, weighted_sum
from gpexperts.joint.gradient import predicted_gradient
from gpexperts.joint.left_out import LeaveOneOutPredictions, leave_one_out
from gpexperts.joint.samples import DrawnFunctions, draw, sampled
from gpexperts.predicting import Predictions
from gpexperts.progress import reports_progress
from gpexperts.validation import positive_int

__all__ = ["JointAnswers"]


class JointAnswers(Predictions):
    """The part of the estimator whose answers are about several queries together."""

    @reports_progress
    def predict_sum(self, X: Any, weights: Any = None, *, latent: bool = False) -> WeightedSum:
        """Predict a weighted sum of the values at several inputs, with the correlations of their errors.

        The matrix of covariances is not formed, so that there may be many inputs; the time grows with the
        square of the number of training rows that they use.

        Parameters
        ----------
        X : array-like of shape (n, d)
        weights : array-like of shape (n,), optional
            By default 1 each: the sum of the values. 1/n each gives their mean.
        latent : bool
            Whether the sum is that of the noise-free function instead of new observations.

        Returns
        -------
        mean, std : float, or ndarray of shape (n_outputs,)
        """
        predictor = self.predictor_
        X = self._queries(X)
        if weights is None:
            weights = np.ones(len(X))
        try:
            weights = np.asarray(weights, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"weights must be numbers, got {weights!r:.60}.") from error
        if weights.shape != (len(X),):
            raise ValueError(
                f"weights must have one number for each of the {len(X)} rows of X, got shape {weights.shape}."
            )
        if not np.isfinite(weights).all():
            raise ValueError("weights must be finite numbers, got NaN or infinity.")
        mean, std = weighted_sum(predictor, X, weights, latent)
        return WeightedSum(mean.item(), std.item()) if predictor.model.one_output else WeightedSum(mean, std)

    def draw_functions(self, n: int = 1, random_state: Any = None) -> DrawnFunctions:
        """Draw noise-free functions from the posterior.

        A drawn function has one value at every point, also over several calls. It belongs to the model as it
        is now: a new `fit` does not change it.

        Parameters
        ----------
        n : int
            Number of functions.
        random_state : int, RandomState or None

        Returns
        -------
        functions : DrawnFunctions
            A sequence of callables; ``functions(X)`` evaluates all of them, shape (n_rows, n).
        """
        draws = draw(self.predictor_, positive_int(n, "n", ""), random_state)
        return DrawnFunctions(draws, np.arange(draws.n_functions), self._queries)

    @reports_progress
    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, *, latent: bool = False
    ) -> np.ndarray:
        """Draw samples from the posterior at X, each of them one function with one value per point.

        Parameters
        ----------
        X : array-like of shape (n, d)
        n_samples : int
        random_state : int, RandomState or None
        latent : bool
            Whether the samples are noise-free functions instead of new observations.

        Returns
        -------
        samples : ndarray of shape (n, n_samples) or (n, n_outputs, n_samples)
        """
        predictor, n_samples = self.predictor_, positive_int(n_samples, "n_samples", "")
        samples = sampled(predictor, self._queries(X), n_samples, random_state, latent=latent)
        return samples[:, 0] if predictor.model.one_output else samples

    @reports_progress
    def predict_gradient(self, X: Any, return_std: bool = False) -> Any:
        """Predict the derivative of the function with respect to the inputs: that of the predicted mean.

        Where the selected experts change, it is the one-sided derivative of the formula that is used.

        Parameters
        ----------
        X : array-like of shape (n, d)
        return_std : bool
            Whether to return the standard deviation of the derivative of the noise-free function too. For
            the kernel Matérn 1/2 it is infinite, and refused.

        Returns
        -------
        gradient : ndarray of shape (n, d) or (n, d, n_outputs)
        std : ndarray of the same shape, if `return_std`
        """
        predictor = self.predictor_
        gradient, std = predicted_gradient(predictor, self._queries(X), return_std)
        shaped = predictor.model.shaped
        return (shaped(gradient), shaped(std)) if return_std else shaped(gradient)

    @reports_progress
    def loo(self) -> LeaveOneOutPredictions:
        """Predict every training row without it, at the trained hyperparameters, scaling and choices.

        Rows that `calibrate` held out are predicted as they are: no expert has seen them.

        Returns
        -------
        LeaveOneOutPredictions
            Row numbers, means, standard deviations, residuals, standardised residuals and log densities.
        """
        return leave_one_out(self.predictor_)
