"""What a predictor learns from fitted experts for the current settings: the selector, and K by tuning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.base import clone

from gpexperts.calibration import HOLDING
from gpexperts.engines import Engine, ThreadEngine
from gpexperts.engines.dask import DaskEngine
from gpexperts.exceptions import RefitRequiredError
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.moments import Request
from gpexperts.experts.store import ExpertStore
from gpexperts.held_out import Held, hold_out
from gpexperts.model import FittedModel
from gpexperts.progress import reporters
from gpexperts.selection import ExpertsView, Selector
from gpexperts.selection.base import checked_index
from gpexperts.settings import Settings
from gpexperts.tuning import EXPERTS, NEIGHBORS, Setups, Tuned, Tuning, leaves_corrections, tune
from gpexperts.validation import is_auto

__all__ = [
    "SMALLEST_BATCH",
    "batch_size",
    "check_served",
    "evaluation_engine",
    "expert_means",
    "experts_view",
    "held_out",
    "tuned",
]

SMALLEST_BATCH = 16
"""Queries of a batch, whatever the memory budget."""


def check_served(model: FittedModel, settings: Settings) -> None:
    """Raise an error where the fitted experts cannot serve the settings."""
    methods = {settings["calibrate"], model.calibrate}
    if len(methods) > 1 and methods & set(HOLDING):
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
        transform=lambda X: model.inputs(np.asarray(X, dtype=float))[0],
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


def tuned(model: FittedModel, settings: Settings, selector: Selector) -> Tuned | Tuning:
    """Return the setup that the user gave, or that held-out log density chooses with its evidence."""
    n_experts, given = model.experts.n_experts, settings.n_selected(model.experts.n_experts)
    setups = _setups(model, settings, selector, given)
    only = len(setups.experts) == len(setups.neighbors) == 1
    if not only or (setups.neighbors[0] > 0 and leaves_corrections(settings.aggregator)):
        reporters().start("choosing experts and neighbours")
        if held := held_out(model, settings, selector):
            return tune(held, setups, settings.aggregator, evaluation_engine(model, settings))
    K = selector.default_n_selected(n_experts) if given is None else given
    m = 0 if 0 in setups.neighbors and K else min(setups.neighbors, key=lambda m: abs(m - 128))
    return Tuning(K, m)


def _setups(model: FittedModel, settings: Settings, selector: Selector, given: int | None) -> Setups:
    """The candidates of K and m that the settings leave."""
    experts = EXPERTS if given is None else (given,)
    if given is None and not selector.varies_by_query:
        experts = (selector.default_n_selected(model.experts.n_experts),)
    m, n = settings["n_neighbors"], int(model.experts.offsets[-1])
    if not is_auto(m):
        if m and given is None:
            experts = (0, *experts)
        return Setups(experts, (min(int(m), n),))
    own = tuple(m for m in NEIGHBORS if m < n) or (n,)
    if given == 0:
        return Setups((0,), own)
    if not settings.aggregator.needs_covariance or model.experts.n_experts == 1:
        return Setups(experts, (0,))
    return Setups((0, *experts) if given is None else experts, (0, *own))


def held_out(model: FittedModel, settings: Settings, selector: Selector) -> list[Held]:
    """Hold rows out of the experts, for a selector that has not seen them; none where rows cannot be read."""
    if not model.experts.has_rows:
        return []
    n_experts = model.experts.n_experts

    def selection_of(rest: ExpertStore) -> Callable[[np.ndarray, int], np.ndarray]:
        fitted = selector
        if selector.uses_rows:
            fitted = clone(selector).fit(experts_view(model, settings, rest))
        return lambda X, K: checked_index(fitted.select(X, K), len(X), n_experts)

    return hold_out(
        model.experts,
        selection_of,
        budget=settings.work_budget,
        random_state=np.random.RandomState(model.seeds.tuning),
    )


def batch_size(experts: ExpertStore, request: Request, K: int, budget: int) -> int:
    """How many queries fit the budget, by what one of them keeps in memory."""
    shared = 0 if experts.shared is None else len(experts.shared.X)
    largest = np.sort(experts.sizes)[::-1][: max(1, K)] + shared
    words = 4 * experts.n_features + (4 + experts.n_outputs) * K
    words += request.n_neighbors * (experts.n_features + experts.n_outputs + 8)
    if request.row_weights:
        words += 4 * (int(largest[:K].sum()) + request.n_neighbors)
    if K == 0:
        return max(SMALLEST_BATCH, budget // (8 * words))
    if request.covariance:
        # q of each selected expert, the gathered copies of a pair, R, its solve, and the list of pairs.
        words += int(largest.sum()) + 4 * int(largest[0]) + 8 * K * K
    else:
        words += 3 * int(largest[0])
    return max(SMALLEST_BATCH, budget // (8 * words))
