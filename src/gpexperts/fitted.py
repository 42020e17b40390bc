"""What a fitted estimator offers besides predictions: fitted attributes, files and pickles."""

from __future__ import annotations

import copy
import os
import threading
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted

from gpexperts.choices import Choice
from gpexperts.experts.local import LocalExperts
from gpexperts.kernels.raw import kernel_in_user_units
from gpexperts.metrics import gaussian_log_density
from gpexperts.model import FittedModel
from gpexperts.predictor import Predictor
from gpexperts.settings import Settings
from gpexperts.training.likelihood import TraceRow

__all__ = ["FittedAttributes"]


class FittedAttributes(BaseEstimator):
    """The part of the estimator that reads its fitted model and the predictor for the current settings."""

    model_: FittedModel
    _predictor: Predictor | None
    _lock: threading.RLock

    @property
    def predictor_(self) -> Predictor:
        """The predictor for the current settings; built when they have changed."""
        check_is_fitted(self)
        # Read once: another thread may change the settings meanwhile.
        predictor = self.__dict__.get("_predictor")
        if predictor is not None:
            return predictor
        with self._lock:
            predictor = self.__dict__.get("_predictor")
            if predictor is None:
                settings = Settings.of(self.get_params(deep=False))
                predictor = self._predictor = Predictor.build(self.model_, settings)
        return predictor

    @property
    def kernel_(self) -> Kernel:
        """The trained kernel, in the user's units."""
        model = self._fitted("kernel_")
        return kernel_in_user_units(model.covariance, model.x_scale, model.y_scale)

    @property
    def n_experts_(self) -> int:
        """Number of experts."""
        return self._fitted("n_experts_").experts.n_experts

    @property
    def labels_(self) -> np.ndarray:
        """Expert of each training row."""
        labels = self._fitted("labels_").labels
        if labels is None:
            raise AttributeError("labels_ is not available: the training rows are on a cluster.")
        return labels

    @property
    def centroids_(self) -> np.ndarray:
        """Mean input of each expert."""
        model = self._fitted("centroids_")
        return model.user_inputs(model.centroids)

    @property
    def trace_(self) -> list[TraceRow]:
        """The steps of training."""
        return list(self._fitted("trace_").trace)

    @property
    def log_marginal_likelihood_value_(self) -> float:
        """Log marginal likelihood of the rows that training used last."""
        return self._fitted("log_marginal_likelihood_value_").trace[-1].log_marginal_likelihood

    @property
    def choices_(self) -> dict[str, Choice]:
        """What every "auto" was resolved to, and why."""
        self._fitted("choices_")
        predictor = self.predictor_
        return {**predictor.model.choices, **predictor.choices}

    @property
    def repairs_(self) -> dict[str, Any]:
        """Counts of numerical repairs."""
        self._fitted("repairs_")
        predictor = self.predictor_
        return {
            "training_blocks_with_jitter": predictor.model.trace[-1].jittered,
            "experts_with_jitter": dict(predictor.model.experts.jitter),
            "queries_repaired": predictor.queries_repaired,
        }

    def interval_width(self, level: float, std: Any) -> np.ndarray:
        """Return half the widths of intervals, in units of std.

        Parameters
        ----------
        level : float
            The probability, strictly between 0 and 1.
        std : array-like of shape (n,) or (n, n_outputs)
            As `predict` returns them; with `target_transform` those of the transformed target.

        Returns
        -------
        width : ndarray of the same shape
        """
        return self.predictor_.interval_widths(level)(std)

    def trivial_log_density(self, y: Any) -> np.ndarray:
        """Return the log density of targets under a Gaussian with the moments of the training targets.

        Parameters
        ----------
        y : array-like of shape (n,) or (n, n_outputs)

        Returns
        -------
        ndarray of the shape of y

        Raises
        ------
        ValueError
            If all training targets are equal.
        """
        check_is_fitted(self)
        y = np.asarray(y, dtype=float)
        mean, std = (np.broadcast_to(self.model_.shaped(part), y.shape) for part in self.model_.y_summary)
        return gaussian_log_density(y, mean, std)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__

    def _fitted(self, name: str) -> FittedModel:
        if "model_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r} before fit.")
        return self.model_

    # ---------------------------------------------------------------------------------- elsewhere

    def save(self, path: str | os.PathLike[str], *, include_factors: bool = False) -> int:
        """Save the fitted model to one file, which `gpexperts.load` reads and which cannot run code.

        Parameters
        ----------
        path : str or path-like
            By custom it ends in ``.gpx``. A failed write leaves the former file as it was.
        include_factors : bool
            Whether to store the experts' Cholesky factors too, up to the memory budget: the file grows by
            8·Σ m_i² bytes, and the loaded model need not compute them at its first predictions. The experts
            of a cluster are gathered to the client for that; otherwise their rows are written in batches.

        Returns
        -------
        size : int
            Bytes of the file.

        Raises
        ------
        UnsavableModelError
            If a part of the model is a class of the user's own, by name; skops can save such models.
        """
        from gpexperts.io import save_model  # late: it imports every class that a file may hold

        check_is_fitted(self)
        return save_model(self, path, include_factors=include_factors)

    def to_local(self) -> Self:
        """Return this model with its experts in this process, if it was fitted on a cluster.

        All training rows are gathered to the client, so they must fit into memory.

        Returns
        -------
        model : DistributedGPRegressor
            With ``engine=None``; this one is left as it is.
        """
        check_is_fitted(self)
        model = copy.copy(self)
        model.engine = None
        return model

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_lock", None)
        if "model_" in state:
            state.update(self._local_state())
        return state

    def _local_state(self) -> dict[str, Any]:
        """The model with all experts in this process, and what its predictor has learned."""
        predictor = self.predictor_
        model = predictor.model
        if not isinstance(model.experts, LocalExperts):  # futures cannot be pickled
            experts = model.experts.to_local(predictor.settings.factor_budget)
            model = replace(model, experts=experts)
        return {"model_": model, "_predictor": predictor.learned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "model_" in self.__dict__:
            self._lock = threading.RLock()
            learned = self.__dict__.pop("_predictor")
            settings = Settings.of(self.get_params(deep=False))
            self._predictor = Predictor.restored(self.model_, settings, learned)
