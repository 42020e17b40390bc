"""What a client computes from its rows, with the library's own functions.

All functions take rows in the units of the experts and return numbers; none of them sends anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpexperts.aggregation import Aggregator, MostCertain
from gpexperts.engines import Engine
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.moments import Request
from gpexperts.experts.store import Observations
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.named import covariance_of, hyperparameter_names, named_kernel
from gpexperts.partition import PARTITIONERS
from gpexperts.partition.assign import number_of_experts
from gpexperts.partition.base import Parts, sorted_parts
from gpexperts.rows.arrays import ArrayRows
from gpexperts.rows.base import SAMPLE_ROWS, Rows
from gpexperts.selection.base import ExpertsView, Selector
from gpexperts.training.blocks import BlockSampler
from gpexperts.training.evidence import evidence_of
from gpexperts.training.likelihood import Block, maximise_likelihood

__all__ = [
    "LocalStart",
    "Scores",
    "covariance_named",
    "divided",
    "held_out_scores",
    "is_length",
    "joint_blocks",
    "mixable",
    "starts",
    "store_of",
    "unmixed",
]

START_BLOCKS = 8, 200
JOINT_BLOCKS = 10, 400
"""Number of blocks of a client and rows in each: of its own training, and of the joint steps."""
START_STEPS = 30, 15
"""Of the first kernel, and then of each kernel."""


def covariance_named(name: str, n_features: int) -> Covariance:
    """Return a named kernel for standardised rows; it is the same for every client."""
    return covariance_of(named_kernel(name, np.ones(n_features), 1.0))


def is_length(name: str, n_features: int) -> np.ndarray:
    """Whether each entry of θ is a length scale."""
    names = hyperparameter_names(covariance_named(name, n_features).kernel)
    return np.array(["length_scale" in name for name in names])


def mixable(theta: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return what has a useful mean over clients: variances, and the inverses of lengths.

    An input that matters to one client matters, and noise that one client sees is noise. Means of logarithms
    follow the clients for whom it is the smallest.
    """
    return np.exp(np.where(length, -theta, theta))


def unmixed(values: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return θ again."""
    return np.where(length, -1.0, 1.0) * np.log(values)


def _sampler(rows: ArrayRows, seed: int) -> BlockSampler:
    random_state = np.random.RandomState(seed)
    sample = rows.sample(SAMPLE_ROWS, random_state)
    return BlockSampler(rows, sample, np.arange(rows.n_outputs), random_state)


class LocalStart(NamedTuple):
    """A kernel that was trained on the rows of one client."""

    theta: np.ndarray
    score: float
    """Of `Evidence`, per row."""


def starts(rows: ArrayRows, kernels: Sequence[str], engine: Engine, seed: int) -> dict[str, LocalStart]:
    """Train each kernel on a few blocks of neighbouring rows."""
    sampler = _sampler(rows, seed)
    ones = np.ones(rows.n_features)
    first = maximise_likelihood(
        covariance_named(kernels[0], rows.n_features),
        sampler.draw(ones, *START_BLOCKS),
        engine,
        max_steps=START_STEPS[0],
        tolerance=1e-4,
    ).covariance
    blocks = sampler.draw(first.metric(ones), *START_BLOCKS)
    found = {}
    for name in kernels:
        start = covariance_named(name, rows.n_features).at(first.kernel.theta)
        trained = maximise_likelihood(start, blocks, engine, max_steps=START_STEPS[1], tolerance=1e-4)
        found[name] = LocalStart(trained.covariance.kernel.theta, evidence_of(trained, blocks).score)
    return found


def joint_blocks(rows: ArrayRows, covariance: Covariance, seed: int) -> list[Block]:
    """Return the blocks of the joint steps: the same for every step of a fit."""
    return _sampler(rows, seed).draw(covariance.metric(np.ones(rows.n_features)), *JOINT_BLOCKS)


def divided(rows: ArrayRows, covariance: Covariance, expert_size: int | str, fewest: int, seed: int) -> Parts:
    """Divide rows among experts that have at least `fewest` rows each, where there are so many."""
    balanced = PARTITIONERS["balanced"]()
    wanted = number_of_experts("auto", expert_size, rows.n)
    metric = covariance.metric(np.ones(rows.n_features))
    for n_experts in range(max(1, min(wanted, rows.n // fewest)), 0, -1):
        labels = np.zeros(rows.n, dtype=np.int64)
        if n_experts > 1:
            labels = balanced.partition(rows.X / metric, n_experts, np.random.RandomState(seed))
        parts = sorted_parts(rows.take(np.arange(rows.n)), labels)
        if parts.sizes.min() >= fewest:
            break
    return parts


class Scores(NamedTuple):
    """How well a client's experts predict its held-out rows, for several K."""

    n_selected: list[int]
    scores: np.ndarray
    """(len(n_selected), n, p) |y − mean| / std, each column in ascending order."""
    log_std: np.ndarray
    """(len(n_selected),) sum of log std over rows and outputs."""


def held_out_scores(
    experts: LocalExperts,
    held: Observations,
    selector: Selector,
    aggregator: Aggregator,
    candidates: Sequence[int],
    engine: Engine,
    *,
    certain: bool,
) -> Scores:
    """Score held-out rows with the experts of this client alone: their inputs stay here.

    Parameters
    ----------
    experts : LocalExperts
    held : Observations
    selector : Selector
        Not fitted.
    aggregator : Aggregator
    candidates : sequence of int
        Numbers of experts to combine, K.
    engine : Engine
    certain : bool
        Whether these are the most certain ones of all, or the first ones of the selector.
    """
    X, y, _ = held
    view = ExpertsView(
        X=experts.X,
        labels=np.repeat(np.arange(experts.n_experts), experts.sizes),
        centroids=Parts(
            Rows(experts.numbers, experts.X, experts.y, experts.noise), experts.offsets
        ).centroids,
        length_scale=experts.covariance.metric(np.ones(experts.n_features)),
        means_at=lambda X: np.empty((len(X), experts.n_experts)),
        transform=lambda X: X,
        random_state=np.random.RandomState(0),
    )
    M = experts.n_experts
    ks = [min(k, M) if certain or selector.varies_by_query else M for k in candidates]
    index = selector.fit(view).select(X, M if certain else max(ks))
    request = Request(communication=aggregator.needs_communication)
    moments = experts.gather(X, index, request, engine)
    scores, log_std = np.empty((len(ks), *y.shape)), np.empty(len(ks))
    for i, k in enumerate(ks):
        if certain:
            prediction = MostCertain(aggregator, k).combine(moments)
        else:
            prediction = aggregator.combine(moments.first(k))
        std = np.sqrt(prediction.observation_var(experts.covariance.noise_variance))
        scores[i] = np.sort(np.abs(y - prediction.mean) / std, axis=0)
        log_std[i] = np.log(std).sum()
    return Scores(ks, scores, log_std)


def store_of(
    parts: Parts, covariance: Covariance, shared: Observations | None, factor_budget: int
) -> LocalExperts:
    """Return the experts of a client."""
    number, X, y, _ = parts.rows
    return LocalExperts(
        X, y, parts.offsets, covariance, numbers=number, shared=shared, factor_budget=factor_budget
    )
