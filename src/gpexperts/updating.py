"""New and forgotten rows of a fitted estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from gpexperts.calibration import HELD_OUT
from gpexperts.engines.dask_types import is_collection
from gpexperts.experts.local import LocalExperts
from gpexperts.fitted import FittedAttributes
from gpexperts.model import FORGOTTEN, FittedModel
from gpexperts.pipeline import fit_model
from gpexperts.predictor import Predictor
from gpexperts.progress import reporters, reports_progress
from gpexperts.rows.arrays import ArrayRows
from gpexperts.settings import Settings
from gpexperts.tuning import Tuning
from gpexperts.updates import check_updatable, density_loss, with_rows, without_rows
from gpexperts.validation import check_word, is_auto

__all__ = ["Updates"]

_CHECKED = 500
"""New rows of a call, at most, that are predicted before they are learned, to see whether the model fits."""
_SHARE = 0.02
"""New rows, as a share of the rows of the model, after which some are predicted."""
_ENOUGH = 200
"""Such rows before hyperparameters are trained again."""
_LOSS = 0.05
"""Nats per row that are lost by wrong variances before hyperparameters are trained again."""


class _Recent(NamedTuple):
    """Rows that are new since the last training."""

    z: np.ndarray
    """(k, p) standardised residuals of some of them, predicted before they were learned."""
    unchecked: int
    """Rows since the last ones that were predicted."""


class Updates(FittedAttributes):
    """The part of the estimator that changes its training rows."""

    _recent: _Recent
    """What new rows have shown since the last training."""

    @reports_progress
    def partial_fit(self, X: Any, y: Any, *, retrain: str = "auto") -> Self:
        """Add rows to the model; a model that is not fitted is fitted to them.

        Rows go to the parts with the nearest centroids, and parts that have grown to more than twice the
        size of the largest part of the fit are split. Scaling, corrections of the variance and calibration
        stay as they are. New rows are numbered on from the rows so far.

        Parameters
        ----------
        X : array-like of shape (k, d)
        y : array-like of shape (k,) or (k, n_outputs)
        retrain : {"auto", "never", "now"}
            Whether the model is fitted again to all rows, with new hyperparameters, scaling and choices.
            "auto" does so when the new rows, predicted before they are learned, show that the variances are
            wrong: when one factor of the variance would gain 0.05 nats per row.

        Returns
        -------
        self
        """
        check_word(retrain, "retrain", ("auto", "never", "now"))
        if "model_" not in self.__dict__:
            return self.fit(X, y)
        predictor = self.predictor_
        model = predictor.model
        check_updatable(model, "partial_fit")
        X, y = self._new_rows(X, y, model)
        X, y = model.x_scale.transform(X), model.y_scale.transform(y)
        recent = self._checked(predictor, X, y) if retrain == "auto" else self._former
        updated = with_rows(model, X, y, split=predictor.selector.refits_quickly)
        expected = 1.0
        if predictor.calibration is not None:
            expected = float(np.mean(np.minimum(predictor.calibration.scores, 40.0) ** 2))
        wrong = len(recent.z) >= _ENOUGH and density_loss(recent.z, expected) > _LOSS
        if retrain == "now" or (retrain == "auto" and wrong):
            reporters().message(1, f"training again on {int(updated.experts.offsets[-1])} rows")
            updated, recent = _fitted_again(updated, predictor.settings), _Recent(recent.z[:0], 0)
            settings = _with_new_selector(predictor.settings)
            self._replace(updated, Predictor.build(updated, settings), recent)
        else:
            self._replace(updated, _updated(predictor, updated), recent)
        return self

    @reports_progress
    def forget(self, rows: Any) -> Self:
        """Remove training rows, as if the model had never seen them.

        This holds at the present hyperparameters, scaling, parts, selector, calibration and choices, which
        may have learned from the rows: fit again to remove every trace.

        Parameters
        ----------
        rows : array-like of int
            Numbers of the rows, in the order of their arrival, from 0. They are not used again.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        predictor = self.predictor_
        updated = without_rows(predictor.model, rows)
        changed = _updated(predictor, updated)
        if updated.held_out is not predictor.model.held_out:
            changed = changed.calibrated()
        self._replace(updated, changed, self._former)
        return self

    @property
    def _former(self) -> _Recent:
        return self.__dict__.get("_recent", _Recent(np.empty((0, self.model_.n_outputs)), 0))

    def _replace(self, model: FittedModel, predictor: Predictor, recent: _Recent) -> None:
        """Change the estimator, at the very end: an update that fails leaves it as it was."""
        with self._lock:
            self.model_, self._predictor, self._recent = model, predictor, recent

    def _new_rows(self, X: Any, y: Any, model: FittedModel) -> tuple[np.ndarray, np.ndarray]:
        if is_collection(X) or is_collection(y):
            raise ValueError("partial_fit takes arrays, not dask collections: load them with compute().")
        X, y = validate_data(
            self, X, y, reset=False, multi_output=True, y_numeric=True, dtype=np.float64, order="C"
        )
        if (y.ndim == 1) != model.one_output or (y.ndim == 2 and y.shape[1] != model.n_outputs):
            raise ValueError(
                f"y has shape {y.shape}, but the model was fitted to "
                f"{'one output, (n,)' if model.one_output else f'{model.n_outputs} outputs'}."
            )
        return X, np.asarray(y, dtype=np.float64).reshape(len(y), -1)

    def _checked(self, predictor: Predictor, X: np.ndarray, y: np.ndarray) -> _Recent:
        """Add standardised residuals of new rows, predicted before they are learned, to the former ones.

        Rows that are few beside those of the model are not predicted until there are more of them: the index
        of the rows is built again for a prediction.
        """
        former = self._former
        if former.unchecked + len(X) < _SHARE * float(predictor.model.experts.offsets[-1]):
            return former._replace(unchecked=former.unchecked + len(X))
        some = np.linspace(0, len(X) - 1, min(len(X), _CHECKED)).astype(int)
        z = np.empty((len(some), y.shape[1]))
        for rows, _, prediction in predictor.batches(X[some], predictor.formula.select(X[some])):
            std = np.sqrt(predictor.formula.variance(prediction, latent=False))
            z[rows] = (y[some][rows] - prediction.mean) / std
        return _Recent(np.concatenate([former.z, z])[-10 * _CHECKED :], 0)


def _updated(predictor: Predictor, model: FittedModel) -> Predictor:
    """Return the predictor for other rows: the selector is fitted to them, nothing is chosen again.

    Where there was one expert and there are several now, the number of selected experts is chosen.
    """
    if model.experts.n_experts > predictor.model.experts.n_experts == 1:
        return Predictor.build(model, _with_new_selector(predictor.settings))
    learned, settings = predictor.learned, predictor.settings
    learned = learned._replace(tuning=_adjusted(learned.tuning, model, settings))
    if predictor.selector.refits_quickly:  # a new one: the former predictor keeps its own
        settings = _with_new_selector(settings)
        learned = learned._replace(selector=None)
    return Predictor.restored(model, settings, learned)


def _adjusted(tuning: Tuning, model: FittedModel, settings: Settings) -> Tuning:
    """Keep the numbers of experts and neighbours to what there is now, and to what the user gave."""
    n, m = int(model.experts.offsets[-1]), tuning.n_neighbors
    if m and not is_auto(settings["n_neighbors"]):
        m = int(settings["n_neighbors"])
    K = settings.n_selected(model.experts.n_experts)
    return tuning._replace(n_neighbors=min(m, n), n_selected=tuning.n_selected if K is None else K)


def _with_new_selector(settings: Settings) -> Settings:
    return replace(settings, selector=clone(settings.selector))


def _fitted_again(model: FittedModel, settings: Settings) -> FittedModel:
    """Fit all present rows of a model; they keep their numbers."""
    experts = model.experts
    assert isinstance(experts, LocalExperts)
    assert model.labels is not None
    X, y, numbers = experts.X, experts.y, experts.numbers
    if model.held_out is not None:
        X, y = (np.concatenate(pair) for pair in zip((X, y), model.held_out, strict=True))
        numbers = np.concatenate([numbers, np.flatnonzero(model.labels == HELD_OUT)])
    order = np.argsort(numbers)
    numbers = numbers[order]
    if settings.partitioner is None:
        settings = replace(settings, values={**settings.values, "partition": model.labels[numbers]})
    rows = ArrayRows(model.x_scale.restore(X[order]), model.y_scale.restore(y[order]))
    fitted = fit_model(rows, settings, one_output=model.one_output)
    assert isinstance(fitted.experts, LocalExperts)
    assert fitted.labels is not None
    fitted.experts.numbers = numbers[fitted.experts.numbers]
    labels = np.full(len(model.labels), FORGOTTEN)
    labels[numbers] = fitted.labels
    return replace(fitted, labels=labels)
