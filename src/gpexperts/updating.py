"""New and forgotten rows of a fitted estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from gpexperts.calibration import ABSENT
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.store import Observations
from gpexperts.fitted import FittedAttributes
from gpexperts.inputs import TrainingRows, new_rows
from gpexperts.model import FittedModel
from gpexperts.outliers import DEGREES
from gpexperts.pipeline import fit_model
from gpexperts.predictor import Predictor
from gpexperts.progress import reporters, reports_progress
from gpexperts.row_noise import observation_variance, precisions, student_precision, widened
from gpexperts.rows.arrays import ArrayRows
from gpexperts.settings import Settings
from gpexperts.tuning import Tuning
from gpexperts.updates import (
    NewRows,
    check_updatable,
    density_loss,
    given_rows,
    with_rows,
    without_rows,
)
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
    learned: int
    """Rows since the last training."""


class Updates(FittedAttributes):
    """The part of the estimator that changes its training rows."""

    _recent: _Recent
    """What new rows have shown since the last training."""

    @reports_progress
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, noise_std: Any = None, *, retrain: str = "auto"
    ) -> Self:
        """Add rows to the model; a model that is not fitted is fitted to them.

        Rows go to the parts with the nearest centroids, and parts that have grown to more than twice the
        size of the largest part of the fit are split. Scaling, trend, target transform, corrections of the
        variance and calibration stay as they are. With Student-t noise, new rows are weighted by the
        residuals of their predictions. New rows are numbered on from the rows so far.

        Parameters
        ----------
        X : array-like of shape (k, d)
        y : array-like of shape (k,) or (k, n_outputs)
        sample_weight, noise_std : array-like of shape (k,), optional
            As for `fit`; weights are in the unit of those of `fit`.
        retrain : {"auto", "never", "now"}
            Whether the model is fitted again to all rows, with new hyperparameters, scaling and choices.
            "auto" does so when the rows have doubled since the last training, and when the new rows,
            predicted before they are learned, show that the variances are wrong: when one factor of the
            variance would gain 0.05 nats per row.

        Returns
        -------
        self
        """
        check_word(retrain, "retrain", ("auto", "never", "now"))
        if "model_" not in self.__dict__:
            return self.fit(X, y, sample_weight, noise_std)
        predictor = self.predictor_
        check_updatable(predictor.model, "partial_fit")
        new = _as_seen(predictor, new_rows(self, X, y, sample_weight, noise_std))
        recent = self._checked(predictor, new.seen) if retrain == "auto" else self._former
        recent = recent._replace(learned=recent.learned + len(new.seen.X))
        updated = with_rows(predictor.model, new, split=predictor.selector.refits_quickly)
        if retrain == "now" or (retrain == "auto" and _is_outdated(predictor, recent, updated)):
            reporters().message(1, f"training again on {int(updated.experts.offsets[-1])} rows")
            updated, recent = _fitted_again(updated, predictor.settings), _nothing_new(updated)
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
        return self.__dict__.get("_recent", _nothing_new(self.model_))

    def _replace(self, model: FittedModel, predictor: Predictor, recent: _Recent) -> None:
        """Change the estimator, at the very end: an update that fails leaves it as it was."""
        with self._lock:
            self.model_, self._predictor, self._recent = model, predictor, recent

    def _checked(self, predictor: Predictor, new: Observations) -> _Recent:
        """Add standardised residuals of new rows, predicted before they are learned, to the former ones.

        Rows that are few beside those of the model are not predicted until there are more of them: the index
        of the rows is built again for a prediction. Outliers of Student-t noise do not count.
        """
        former, n = self._former, len(new.X)
        if former.unchecked + n < _SHARE * float(predictor.model.experts.offsets[-1]):
            return former._replace(unchecked=former.unchecked + n)
        ordinary = np.flatnonzero(precisions(new.noise)[0] == 1.0)
        if len(ordinary) == 0:
            return former
        some = ordinary[np.linspace(0, len(ordinary) - 1, min(len(ordinary), _CHECKED)).astype(int)]
        residual, var, inflation = _predicted(predictor, Observations(*(column[some] for column in new)))
        z = residual / np.sqrt(var[:, None] * inflation * predictor.formula.variance_scale)
        return former._replace(z=np.concatenate([former.z, z])[-10 * _CHECKED :], unchecked=0)


def _nothing_new(model: FittedModel) -> _Recent:
    return _Recent(np.empty((0, model.n_outputs)), 0, 0)


def _is_outdated(predictor: Predictor, recent: _Recent, updated: FittedModel) -> bool:
    """Whether the rows have doubled since the last training, or new rows show that variances are wrong."""
    if 2 * recent.learned >= updated.experts.offsets[-1]:
        return True
    scores = predictor.residuals or predictor.calibration
    held_out = None if scores is None else scores.scores
    return len(recent.z) >= _ENOUGH and density_loss(recent.z, held_out) > _LOSS


def _predicted(predictor: Predictor, new: Observations) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Residuals (k, p) of new rows, their variances (k,) and the corrections (k, p) of these."""
    formula, residual = predictor.formula, np.empty_like(new.y)
    var = np.array(np.broadcast_to(observation_variance(new.noise, formula.noise_variance), len(new.y)))
    inflation = np.ones_like(new.y)
    for rows, _, prediction in predictor.batches(new.X, formula.select(new.X)):
        residual[rows] = new.y[rows] - prediction.mean
        var[rows] += prediction.var
        if prediction.inflation is not None:
            inflation[rows] = prediction.inflation
    return residual, var, inflation


def _as_seen(predictor: Predictor, given: TrainingRows) -> NewRows:
    """Return new rows in the units of the experts."""
    model, rows = predictor.model, given.rows
    assert isinstance(rows, ArrayRows)
    assert isinstance(model.experts, LocalExperts)
    columns = model.experts.noise.shape[1]
    seen = model.observations(rows.X, rows.y, widened(rows.noise, min(2, columns)))
    if columns == 4:
        residual, var, _ = _predicted(predictor, seen)
        z2 = (residual**2).sum(axis=1) / var
        seen = seen._replace(noise=student_precision(seen.noise, z2, DEGREES, model.n_outputs))
    return NewRows(seen, rows.y, np.arange(given.n) if given.kept is None else given.kept, given.n)


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
    """Fit all present rows of a model; they keep their numbers, and columns their encoding."""
    (numbers, X, y, noise), part = given_rows(model)
    assert model.labels is not None
    if settings.partitioner is None:
        settings = replace(settings, values={**settings.values, "partition": part})
    rows = ArrayRows(X, y, noise)
    fitted = fit_model(rows, settings, one_output=model.one_output, encoder=model.encoder)
    labels = np.full(len(model.labels), ABSENT)
    labels[numbers] = fitted.labels
    return replace(fitted, labels=labels)
