"""What a predictor learns from fitted experts for the current settings: the selector, and K by tuning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.base import clone

from gpexperts.choices import Choice
from gpexperts.engines import Engine, ThreadEngine
from gpexperts.engines.dask import DaskEngine
from gpexperts.exceptions import RefitRequiredError
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.moments import Request
from gpexperts.experts.store import ExpertStore
from gpexperts.model import FittedModel
from gpexperts.progress import reporters
from gpexperts.selection import ExpertsView, Selector
from gpexperts.selection.base import checked_index
from gpexperts.settings import Settings
from gpexperts.tuning import Tuning, tune

__all__ = ["check_served", "evaluation_engine", "expert_means", "experts_view", "tuned"]


def check_served(model: FittedModel, settings: Settings) -> None:
    """Raise an error where the fitted experts cannot serve the settings."""
    if settings["calibrate"] != model.calibrate:
        raise RefitRequiredError(
            f"calibrate={settings['calibrate']!r}, but the model was fitted with {model.calibrate!r}: it "
            "decides which rows the experts see. Call fit again with this setting."
        )
    needs = settings.aggregator.needs_communication
    if needs != (model.experts.shared is not None):
        need, have = ("needs", "without") if needs else ("cannot use", "with")
        raise RefitRequiredError(
            f"aggregation={settings['aggregation']!r} {need} a communication set, but the experts were "
            f"fitted {have} one. Call fit again with this setting."
        )


def evaluation_engine(model: FittedModel, settings: Settings) -> Engine:
    """Return where experts are evaluated: those of this process by its threads."""
    if isinstance(settings.engine, DaskEngine) and isinstance(model.experts, LocalExperts):
        return ThreadEngine(settings["n_jobs"])
    return settings.engine


def experts_view(model: FittedModel, settings: Settings, experts: ExpertStore | None = None) -> ExpertsView:
    """Return what a selector may learn from."""
    experts = model.experts if experts is None else experts
    X, labels, _ = experts.sample

    def means_at(X: np.ndarray) -> np.ndarray:
        index = np.tile(np.arange(model.experts.n_experts), (len(X), 1))
        return expert_means(model, settings, X, index)[:, :, 0]

    return ExpertsView(
        X=X,
        labels=labels,
        centroids=model.centroids,
        length_scale=experts.covariance.metric(np.ones(X.shape[1])),
        means_at=means_at,
        transform=lambda X: model.x_scale.transform(np.asarray(X, dtype=float)),
        random_state=np.random.RandomState(model.seeds.selection),
    )


def expert_means(model: FittedModel, settings: Settings, X: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Means (n, K, p) of the experts of `index` (n, K), without computing variances."""
    experts, engine = model.experts, evaluation_engine(model, settings)
    mean = np.empty((*index.shape, experts.n_outputs))
    step = max(16, settings.work_budget // (8 * int(experts.sizes.max())))
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        mean[rows] = experts.gather(X[rows], index[rows], Request(variance=False), engine).mean
    return mean


def tuned(model: FittedModel, settings: Settings, selector: Selector, choices: dict[str, Choice]) -> Tuning:
    """Return K as the user gave it, or as held-out log density chooses it."""
    n_experts = model.experts.n_experts
    if (given := settings.n_selected(n_experts)) is not None:
        return Tuning(given)
    default = Tuning(selector.default_n_selected(n_experts))
    if not selector.varies_by_query:
        return default

    def selection_of(rest: ExpertStore) -> Callable[[np.ndarray, int], np.ndarray]:
        fitted = selector
        if selector.uses_rows:  # it must not see the held-out rows
            fitted = clone(selector).fit(experts_view(model, settings, rest))
        return lambda X, K: checked_index(fitted.select(X, K), len(X), n_experts)

    reporters().start("choosing the number of experts")
    tuned = tune(
        model.experts,
        selection_of,
        settings.aggregator,
        evaluation_engine(model, settings),
        budget=settings.work_budget,
        random_state=np.random.RandomState(model.seeds.tuning),
    )
    if tuned is None:
        return default
    tuning, choices["n_selected"] = tuned
    reporters().message(1, f"experts per query: {choices['n_selected']}")
    return tuning
