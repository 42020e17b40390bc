"""How a fitted model answers: whom it asks, and what it makes of what they say."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from gpexperts.aggregation import AGGREGATORS, NPAE, Aggregator
from gpexperts.calibration import Calibration
from gpexperts.engines import Engine, ThreadEngine
from gpexperts.engines.dask import DaskEngine
from gpexperts.exceptions import RefitRequiredError
from gpexperts.experts.gather import gather_moments, predict_in_batches
from gpexperts.experts.local import Experts
from gpexperts.experts.moments import ExpertMoments, Prediction
from gpexperts.metrics import gaussian_width
from gpexperts.parameters import Parameters
from gpexperts.partition.assign import labels_are_given
from gpexperts.progress import listeners
from gpexperts.scaling import Standardizer
from gpexperts.selection import (
    SELECTORS,
    ClassifierSelector,
    ExpertsView,
    KNNSelector,
    NearestRowsSelector,
    Selector,
)
from gpexperts.selection.base import checked_index
from gpexperts.settings import checked_level, is_auto, member, number_selected
from gpexperts.training.likelihood import warn_of_jitter
from gpexperts.tuning import Rule, learn_rule

__all__ = ["Asking"]


class Asking(Parameters):
    """The part of the estimator that works on fitted experts.

    Selection and aggregation follow the current settings, so that they can be changed without a refit;
    what they need to learn is learned once per setting and kept.
    """

    n_experts_: int
    choices_: dict[str, Any]
    repairs_: dict[str, Any]
    _experts: Any
    _centroids: np.ndarray
    _x_scale: Standardizer
    _y_scale: Standardizer
    _y_ndim: int
    _fitted_with_communication: bool
    _selection_seed: int
    _rule_seed: int
    _lock: threading.RLock
    _fitted_selector: tuple[Any, Selector] | None
    _learned_rule: tuple[Any, Rule] | None
    _fitted_calibrate: str | None = None
    """The setting that rows were held out for."""
    _held_out: tuple[np.ndarray, np.ndarray] | None = None
    """Inputs and targets that no expert has seen, in the units the kernel sees."""
    _learned_calibration: tuple[Any, Calibration] | None = None
    _jitter_is_told: bool = True  # of a model that an older version saved, nothing is known

    def _queries(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, order="C", ensure_min_samples=0)
        return self._x_scale.transform(X)

    def _asked(self, X: np.ndarray, rule: Rule) -> np.ndarray:
        return checked_index(self._selector().select(X, rule.n_selected), len(X), self.n_experts_)

    def _batches(
        self, X: np.ndarray, index: np.ndarray, rule: Rule
    ) -> Iterator[tuple[np.ndarray, ExpertMoments, Prediction]]:
        aggregator = self._combining(rule)
        listeners().start("asking the experts", len(X))
        for rows, moments, prediction in predict_in_batches(
            self._experts,
            aggregator,
            X,
            index,
            self._asking_engine(),
            budget=self._work_budget,
            prune=rule.prune,
            on_batch=listeners().advance,
        ):
            if prediction.repaired:
                with self._lock:
                    self.repairs_["queries_mended"] += prediction.repaired
            yield rows, moments, prediction

    def _tell_of_jittered_experts(self) -> None:
        """Say once per fit that factorising took jitter: experts are factorised when they are first asked."""
        with self._lock:
            jitters = tuple(self._experts.jitter.values())
            told, self._jitter_is_told = self._jitter_is_told, self._jitter_is_told or bool(jitters)
        if jitters and not told:
            warn_of_jitter(f"{len(jitters)} experts (up to {max(jitters):g} of their mean variance)")

    def _variance(self, prediction: Prediction, latent: bool) -> np.ndarray:
        """(n, p), of the function or of a new observation, in the units the kernel sees."""
        if latent:
            return np.broadcast_to(prediction.var[:, None], prediction.mean.shape)
        return self._variance_scale() * prediction.observation_var(self._experts.covariance.noise_variance)

    def _variance_scale(self) -> np.ndarray:
        """(p,) what the variance of an observation is multiplied with."""
        if self._fitted_calibrate == "scale":
            return self._calibration().variance_scale
        return np.ones(self._experts.n_outputs)

    def _width(self, level: float) -> Any:
        """Half the width of an interval, a number or (p,), in units of the std that `predict` gives."""
        self._check_calibrate()
        if self._fitted_calibrate == "conformal":
            return self._shaped(self._calibration().quantile(checked_level(level)))
        return gaussian_width(level)

    def _check_calibrate(self) -> None:
        if self.calibrate != self._fitted_calibrate:
            raise RefitRequiredError(
                f"calibrate={self.calibrate!r}, but the model was fitted with {self._fitted_calibrate!r}: "
                "which rows its experts see depends on that. Call fit again with this setting."
            )

    def _calibration(self) -> Calibration:
        """What held-out rows say of the current settings; asked anew where those have changed."""
        # As text: 1 is one expert, 1.0 is all of them.
        key = _setting_key(self.selection), _setting_key(self.aggregation), repr(self.n_selected)
        with self._lock:
            if self._learned_calibration is None or self._learned_calibration[0] != key:
                self._learned_calibration = key, self._calibrated()
            return self._learned_calibration[1]

    def _calibrated(self) -> Calibration:
        assert self._held_out is not None
        X, y = self._held_out
        scores = np.empty_like(y)
        rule = self._rule()
        noise = self._experts.covariance.noise_variance
        for rows, _, prediction in self._batches(X, self._asked(X, rule), rule):
            scores[rows] = np.abs(y[rows] - prediction.mean) / np.sqrt(prediction.observation_var(noise))
        learned = Calibration(np.sort(scores, axis=0))
        scale = learned.variance_scale.tolist()
        self.choices_["calibrate"] = {
            "method": self._fitted_calibrate,
            "rows_held_out": len(y),
            "variance_scale": scale if self._y_ndim > 1 else scale[0],
        }
        listeners().say(1, f"{len(y)} held-out rows ask for {np.round(scale, 3)} times the variance")
        return learned

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        """Drop the outputs' axis where the training target had none."""
        return values if self._y_ndim > 1 else values[..., 0]

    def _asking_engine(self) -> Engine:
        """Where experts are asked: those of a model that was brought home are asked here."""
        engine = self._engine()
        at_home = isinstance(engine, DaskEngine) and isinstance(self._experts, Experts)
        return ThreadEngine(self.n_jobs) if at_home else engine

    def _aggregator(self) -> Aggregator:
        """The rule for the current setting, if the fitted experts can serve it."""
        if bool(self.share_inputs) == getattr(self._experts, "private", False):
            raise RefitRequiredError(
                f"share_inputs={self.share_inputs!r}, but the model was fitted with {not self.share_inputs}: "
                "whether rows may leave their workers is decided where they are loaded. Call fit again with "
                "this setting."
            )
        if not self.share_inputs:
            from gpexperts.cluster.private import check_private_settings

            check_private_settings(self)
        aggregator = member(self.aggregation, AGGREGATORS, Aggregator, "aggregation")
        if self._fitted_with_communication != aggregator.needs_communication:
            need, have = ("needs", "without") if aggregator.needs_communication else ("cannot use", "with")
            raise RefitRequiredError(
                f"aggregation={self.aggregation!r} {need} a communication set, but the experts were fitted "
                f"{have} one. Call fit again with this setting."
            )
        return aggregator

    def _combining(self, rule: Rule) -> Aggregator:
        """The rule for the current setting, with what held-out rows said of it."""
        aggregator = self._aggregator()
        if isinstance(aggregator, NPAE) and aggregator.widen == "auto":
            return rule.applied(aggregator)
        return aggregator

    def _selector(self) -> Selector:
        """The fitted selector for the current setting; fitted anew where the setting has changed."""
        key = _setting_key(self.selection)
        with self._lock:
            if self._fitted_selector is None or self._fitted_selector[0] != key:
                self._fitted_selector = (key, self._new_selector().fit(self._experts_view()))
            return self._fitted_selector[1]

    def _new_selector(self) -> Selector:
        if is_auto(self.selection):
            # Rows that may not leave their workers cannot be looked at from here.
            by_rows = self.share_inputs
            self.choices_["selection"] = (
                f"nearest {'rows' if by_rows else 'centroids'} in the kernel's metric"
            )
            return NearestRowsSelector() if by_rows else KNNSelector(metric="kernel")
        if not isinstance(self.selection, (str, Selector)) and hasattr(self.selection, "predict_proba"):
            return ClassifierSelector(self.selection)
        if hasattr(self.selection, "fit") and not isinstance(self.selection, Selector):
            raise TypeError(
                f"The classifier selection={self.selection!r} has no predict_proba to rank experts."
            )
        return clone(member(self.selection, SELECTORS, Selector, "selection"))

    def _experts_view(self, experts: Any = None) -> ExpertsView:
        """What a selector may look at, of the fitted experts or of `experts` in their stead."""
        experts = self._experts if experts is None else experts
        X, labels, _ = experts.sample
        return ExpertsView(
            X=X,
            labels=labels,
            centroids=self._centroids,
            length_scale=experts.covariance.length_scale(X.shape[1]),
            means_at=self._means_of_all,
            transform=lambda X: self._x_scale.transform(np.asarray(X, dtype=float)),
            random_state=np.random.RandomState(self._selection_seed),
            summed=experts.summed,
        )

    def _means_of_all(self, X: np.ndarray) -> np.ndarray:
        everyone = np.tile(np.arange(self.n_experts_), (len(X), 1))
        return self._means(X, everyone)[:, :, 0]

    def _means(self, X: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Means (n, K, p) of the experts of `index` (n, K); no variance is paid for."""
        experts, engine = self._experts, self._asking_engine()
        mean = np.empty((*index.shape, experts.n_outputs))
        step = max(16, self._work_budget // (8 * int(experts.sizes.max())))
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            mean[rows] = gather_moments(
                experts, X[rows], index[rows], engine, covariance=False, variance=False
            ).mean
        return mean

    def _rule(self) -> Rule:
        """How many experts a query asks: what the user said, or what held-out rows say."""
        selector = self._selector()
        if (n_selected := self._n_selected_given()) is not None:
            return Rule(n_selected)
        # Held-out rows would have to travel to the experts of others.
        if not selector.varies or not self.share_inputs:
            return Rule(selector.default_n_selected(self.n_experts_))
        key = _setting_key(self.selection), _setting_key(self.aggregation)
        with self._lock:
            if self._learned_rule is None or self._learned_rule[0] != key:
                self._learned_rule = key, self._learn_rule(selector)
            return self._learned_rule[1]

    def _n_selected_given(self) -> int | None:
        """K as the user chose it, checked; None for "auto"."""
        if is_auto(self.n_selected):
            return None
        given = None
        if isinstance(self.n_experts, (int, np.integer)):
            given = max(int(self.n_experts), self.n_experts_)
        elif labels_are_given(self.partition):
            given = self.n_experts_
        return number_selected(self.n_selected, self.n_experts_, given=given)

    def _learn_rule(self, selector: Selector) -> Rule:
        def selection_of(rest: Any) -> Callable[[np.ndarray, int], np.ndarray]:
            known = clone(selector).fit(self._experts_view(rest)) if selector.follows_rows else selector
            return lambda X, K: checked_index(known.select(X, K), len(X), self.n_experts_)

        learned = learn_rule(
            self._experts,
            selection_of,
            self._aggregator(),
            self._asking_engine(),
            budget=self._work_budget,
            random_state=np.random.RandomState(self._rule_seed),
        )
        if learned is None:
            return Rule(selector.default_n_selected(self.n_experts_))
        rule, evidence = learned
        self.choices_["n_selected"] = {**rule._asdict(), **evidence}
        whom = (
            f"at most {rule.n_selected} experts per query, pruned at {rule.prune:g} of the best one's "
            f"explained variance; widening {rule.widen}, "
        )
        listeners().say(
            1,
            f"by the density of {evidence['queries']} held-out rows: {whom if self.n_experts_ > 1 else ''}"
            f"variance times {rule.scale:g}, surprise {rule.surprise:g}",
        )
        return rule


def _setting_key(setting: Any) -> Any:
    """Something equal for equal settings: a name, or a class with a hash of its parameters."""
    if hasattr(setting, "get_params"):
        kind: Any = type(setting)
        if kind.__module__.partition(".")[0] in ("gpexperts", "sklearn"):
            kind = f"{kind.__module__}.{kind.__qualname__}"  # which a file can hold
        return kind, joblib.hash(setting.get_params())
    return setting
