"""Prediction: from a fitted model and the current settings to means, deviations and explanations.

    queries ─► select ─► gather (experts) ─► combine (aggregation) ─► mean, variance ─► the user's units

A `Predictor` is built from a `FittedModel` and a snapshot of the settings, and is replaced when those change.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gpexperts.calibrating import calibration_of, interval_widths
from gpexperts.calibration import Calibration, Widths
from gpexperts.choices import Choice
from gpexperts.engines import Engine
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.moments import ExpertMoments, Prediction, Request
from gpexperts.explaining import explained
from gpexperts.explanation import Explanation
from gpexperts.formula import Formula
from gpexperts.metrics import checked_level
from gpexperts.model import FittedModel
from gpexperts.prepare import (
    SMALLEST_BATCH,
    batch_size,
    check_served,
    evaluation_engine,
    expert_means,
    experts_view,
    held_out,
    tuned,
)
from gpexperts.progress import reporters
from gpexperts.selection import Selector
from gpexperts.settings import Settings
from gpexperts.target import ScoreTerms
from gpexperts.training.likelihood import warn_of_jitter
from gpexperts.tuning import Setups, Tuned, Tuning, scores_of
from gpexperts.validation import is_auto

__all__ = ["Learned", "Predictor"]


class Learned(NamedTuple):
    """What a predictor has learned for its settings: what a pickle or a model file stores of it."""

    selector: Selector | None
    """Fitted; None where it consists of the training rows and is fitted again."""
    tuning: Tuning
    choices: dict[str, Choice]
    residuals: Calibration | None
    calibration: Calibration | None


class Predictor:
    """Predicts with a fitted model, with one selection and one aggregation.

    Parameters
    ----------
    model : FittedModel
    settings : Settings
    selector : Selector
        Fitted.
    tuning : Tuning
    choices : dict of str to Choice
        What was chosen for these settings.
    residuals : Calibration or None
        Scores of the rows that were held out to choose the experts, where there are any.
    calibration : Calibration or None
        Scores of the rows that `calibrate` holds out.
    """

    def __init__(
        self,
        model: FittedModel,
        settings: Settings,
        selector: Selector,
        tuning: Tuning,
        choices: dict[str, Choice],
        residuals: Calibration | None,
        calibration: Calibration | None,
    ) -> None:
        self.model, self.settings = model, settings
        self.selector, self.tuning, self.choices = selector, tuning, choices
        self.residuals, self.calibration = residuals, calibration
        self.queries_repaired = 0
        """Queries whose NPAE system had to be repaired."""
        self.jitter_was_reported = model.trace[-1].jittered > 0
        self._lock = threading.Lock()
        self._has_no_residuals = False
        scale = np.ones(model.n_outputs)
        if settings["calibrate"] == "scale" and calibration is not None:
            scale = calibration.variance_scale
        self.formula = Formula(
            model.x_scale,
            model.y_scale,
            selector,
            tuning.n_selected,
            tuning.n_neighbors,
            model.experts.n_experts,
            tuning.applied(settings.aggregator),
            tuning.prune,
            model.covariance.noise_variance,
            scale,
            model.encoder,
            model.trend,
            model.target,
        )

    @classmethod
    def build(cls, model: FittedModel, settings: Settings) -> Predictor:
        """Fit the selector, choose K and calibrate, for the current settings.

        Raises
        ------
        RefitRequiredError
            If the fitted experts cannot serve these settings.
        """
        check_served(model, settings)
        choices: dict[str, Choice] = {}
        reporters().start("fitting the selector")
        selector = settings.selector.fit(experts_view(model, settings))
        if is_auto(settings["selection"]):
            choices["selection"] = Choice("nearest_rows", "the experts that own the nearest training rows")
        found = tuned(model, settings, selector)
        residuals = None
        if isinstance(found, Tuned):
            tuning, choices["n_selected"], residuals = found
            reporters().message(1, f"prediction: {choices['n_selected']}")
        else:
            tuning = found
        predictor = cls(model, settings, selector, tuning, choices, residuals, None)
        if settings["calibrate"] is not None:
            predictor = predictor.calibrated()
        # A selector that fails or a wrong K is an error now, and not at the first prediction.
        predictor.formula.select(model.centroids[:1])
        return predictor

    @classmethod
    def restored(cls, model: FittedModel, settings: Settings, learned: Learned) -> Predictor:
        """Return a predictor with what another has learned for the same model and settings."""
        selector = learned.selector
        if selector is None:
            selector = settings.selector.fit(experts_view(model, settings))
        return cls(model, settings, selector, *learned[1:])

    @property
    def learned(self) -> Learned:
        """What is worth storing."""
        experts = self.model.experts
        again = isinstance(experts, LocalExperts) and self.selector.repeats(experts.X)
        selector = None if again else self.selector
        return Learned(selector, self.tuning, self.choices, self.residuals, self.calibration)

    @property
    def _engine(self) -> Engine:
        """Where experts are evaluated: those of this process, here."""
        return evaluation_engine(self.model, self.settings)

    def calibrated(self) -> Predictor:
        """Return the predictor with the scores of the rows that `calibrate` asks for."""
        reporters().start("calibrating")
        calibration, choice = calibration_of(
            self.model, self.settings, self.formula, self.batches, self._engine
        )
        reporters().message(1, f"calibration: {choice.reason}")
        choices = {**self.choices, "calibrate": choice}
        return Predictor(
            self.model, self.settings, self.selector, self.tuning, choices, self.residuals, calibration
        )

    # --------------------------------------------------------------------------------- predictions

    def batches(
        self, X: np.ndarray, index: np.ndarray, request: Request | None = None
    ) -> Iterator[tuple[np.ndarray, ExpertMoments, Prediction]]:
        """Yield (rows, moments, prediction) for batches of queries within the memory budget.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Queries, in the units of the experts.
        index : ndarray of shape (n, K)
            Their selected experts.
        request : Request, optional
            The moments that are needed; by default those of the aggregator.
        """
        experts, formula = self.model.experts, self.formula
        request = formula.request if request is None else request
        reporters().start("evaluating experts", len(X))
        # Queries that share experts share the blocks k(X_i, X_j), if they are in the same batch.
        order = np.lexsort(index.T[::-1]) if index.shape[1] else np.arange(len(X))
        size = max(1, len(X))
        if size > SMALLEST_BATCH:  # the budget of "auto" is read from the system
            size = batch_size(experts, request, index.shape[1], self.settings.work_budget)
        for start in range(0, len(X), size):
            rows = order[start : start + size]
            moments = experts.gather(X[rows], index[rows], request, self._engine)
            prediction = formula.aggregator.combine(moments)
            self.count_repairs(prediction.repaired)
            yield rows, moments, prediction
            reporters().advance(len(rows))

    def count_repairs(self, repaired: int) -> None:
        """Add to the number of repaired queries."""
        if repaired:
            with self._lock:
                self.queries_repaired += repaired

    def report_jitter(self) -> None:
        """Warn once if factorising experts needed jitter: they are factorised when first evaluated."""
        with self._lock:
            jitters = tuple(self.model.experts.jitter.values())
            news = bool(jitters) and not self.jitter_was_reported
            self.jitter_was_reported |= news
        if news:
            warn_of_jitter(f"{len(jitters)} experts (up to {max(jitters):g} of their mean variance)")

    def _moments(self, X: np.ndarray, latent: bool) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n, p) in the units of the experts, for queries in the same units."""
        mean, var = np.empty((len(X), self.model.n_outputs)), np.empty((len(X), self.model.n_outputs))
        for rows, _, prediction in self.batches(X, self.formula.select(X)):
            mean[rows] = prediction.mean
            var[rows] = self.formula.variance(prediction, latent)
        self.report_jitter()
        return mean, var

    def interval(self, X: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the mean and the ends (n, p) of intervals for queries (n, d), in the user's units."""
        widths = self.interval_widths(level)
        X, added = self.formula.inputs(X)
        moments = self._moments(X, latent=False)
        mean, _ = self.formula.restored(*moments, added)
        return mean, *self.formula.interval(*moments, added, widths)

    def score_terms(self, X: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
        """Return `ScoreTerms` by name, of the shape of y; nothing where the target is not transformed."""
        if self.model.target is None:
            return {}
        terms = self.scored(X, np.asarray(y, dtype=float).reshape(len(X), -1))
        return {name: term.reshape(np.shape(y)) for name, term in terms._asdict().items()}

    def scored(self, X: np.ndarray, y: np.ndarray) -> ScoreTerms:
        """Compare targets y (n, p), in the user's units, with their predictions."""
        X, added = self.formula.inputs(X)
        mean, std = self.formula.transformed(*self._moments(X, latent=False), added)
        return ScoreTerms.of(self.model.target, y, mean, std)

    def predict(self, X: np.ndarray, *, return_std: bool, latent: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and std, (n, p), in the user's units; std is empty unless requested.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Queries, in the user's units.
        return_std : bool
        latent : bool
            Whether std is that of the noise-free function.
        """
        X, added = self.formula.inputs(X)
        single = self.formula.n_selected == 1 and self.formula.n_neighbors == 0 and self.model.target is None
        if single and not return_std and self.formula.aggregator.keeps_single_mean:
            mean = expert_means(self.model, self.settings, X, self.formula.select(X))[:, 0]
            self.report_jitter()
            return self.model.y_scale.restore(mean) + added.mean, np.empty((0, self.model.n_outputs))
        return self.formula.restored(*self._moments(X, latent), added, latent=latent)

    def interval_widths(self, level: float) -> Widths:
        """Half the width of intervals in units of std of the transformed target, as a function of it."""
        level = checked_level(level)
        residuals = self._computed_residuals() if self.calibration is None else self.residuals
        widths = interval_widths(level, self.model, self.settings, self.calibration, residuals)
        return widths.in_units(self.model.y_scale.scale)

    def _computed_residuals(self) -> Calibration | None:
        """Scores of held-out rows; computed when first needed where nothing had to be chosen by them."""
        with self._lock:
            if self.residuals is None and not self._has_no_residuals:
                held = held_out(self.model, self.settings, self.selector)
                self._has_no_residuals = not held
                if held:
                    setups = Setups((self.tuning.n_selected,), (self.tuning.n_neighbors,))
                    self.residuals = scores_of(held, setups, self.formula.aggregator, self._engine)
        return self.residuals

    def select(self, X: np.ndarray) -> np.ndarray:
        """Return the selected experts (n, K) of queries in the user's units; pruned ones are −1."""
        X, _ = self.formula.inputs(X)
        index = self.formula.select(X)
        if self.formula.prune > 0:
            for rows, moments, _ in self.batches(X, index.copy()):
                index[rows] = moments.index[:, self.formula.n_own :]
        return index

    def explain(self, X: np.ndarray) -> Explanation:
        """Return the selected experts of each query, their predictions and weights."""
        explanation = explained(self.model, self.formula, X, self.batches, self._engine)
        self.report_jitter()
        return explanation
