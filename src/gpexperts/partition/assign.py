"""From the user's settings to parts: which expert owns which training row.

Up to `SAMPLE_ROWS` rows are partitioned as a whole. More rows are first divided into shards of some 25,000
rows, by the nearest of as many places that a sample gives; each shard is then partitioned by itself. Rows are
routed by their values and numbers alone, so that the parts do not depend on where the rows are stored.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from gpexperts.exceptions import FewerExpertsWarning
from gpexperts.partition.base import Partitioner, compact, sorted_parts
from gpexperts.partition.shards import partition_shards
from gpexperts.rows.base import SAMPLE_ROWS, Rows, RowSource
from gpexperts.validation import is_auto, positive_int

__all__ = [
    "EXACT_ROWS",
    "Plan",
    "assign",
    "automatic_n_experts",
    "communication_size",
    "labels_are_given",
    "labels_per_row",
    "number_of_experts",
    "plan_parts",
    "warn_of_fewer",
]

EXACT_ROWS = 3000
"""Rows up to which one expert has all of them, unless the user says otherwise: the exact GP."""


class Plan(NamedTuple):
    """What is known of the parts before any row is assigned."""

    n_experts: int
    """M."""
    labels: np.ndarray | None
    """(n,) given by the user; −1 marks rows that all experts share."""
    n_shared: int
    """Rows of the communication set."""
    largest: int
    """Rows of the largest expert at least, shared ones included."""


def labels_are_given(partition: Any) -> bool:
    """Whether `partition` is neither a name nor a Partitioner, and so must be the labels themselves."""
    return not isinstance(partition, (str, Partitioner))


def automatic_n_experts(n: int) -> int:
    """M for n rows if the user does not give it: the exact GP up to `EXACT_ROWS` rows, then small parts.

    Parts have 400 rows while it is cheap to factorise all of them, and 250 where there are so many
    parts that most are used by few queries.
    """
    if n <= EXACT_ROWS:
        return 1
    return -(-n // (400 if n <= 100_000 else 250))


def number_of_experts(n_experts: Any, expert_size: Any, n: int) -> int:
    """Resolve M from `n_experts` and `expert_size` for n rows."""
    if not is_auto(n_experts) and not is_auto(expert_size):
        raise ValueError(f"Give n_experts or expert_size, not both (got {n_experts!r} and {expert_size!r}).")
    if not is_auto(n_experts):
        M = positive_int(n_experts, "n_experts")
        if n < M:
            raise ValueError(
                f"n_experts={M} is more than the {n} training rows (n_samples={n}); every expert needs at "
                "least one. Choose a smaller n_experts or leave it 'auto'."
            )
        return M
    if not is_auto(expert_size):
        return max(1, -(-n // positive_int(expert_size, "expert_size")))
    return automatic_n_experts(n)


def plan_parts(
    n: int,
    partition: Any,
    n_experts: Any,
    expert_size: Any,
    *,
    shares_rows: bool,
    communication_rows: int | None,
) -> Plan:
    """Resolve the number of experts and of shared rows.

    Parameters
    ----------
    n : int
        Training rows.
    partition : Partitioner or array of int
    n_experts, expert_size : int or "auto"
    shares_rows : bool
        Whether the aggregation needs a communication set.
    communication_rows : int or None
        Its size; None is the size of a part.
    """
    if not labels_are_given(partition):
        M = number_of_experts(n_experts, expert_size, n)
        n_shared = communication_size(communication_rows, n, M) if shares_rows else 0
        return Plan(M, None, n_shared, -(-(n - n_shared) // M) + n_shared)
    labels = _given_labels(partition, n, n_experts, expert_size, shares_rows)
    own = labels[labels >= 0]
    M, n_shared = len(np.unique(own)), int((labels < 0).sum())
    largest = int(np.bincount(compact(own)).max())
    if shares_rows and n_shared == 0:
        n_shared = communication_size(communication_rows, n, M)
        largest = max(-(-(n - n_shared) // M), largest - n_shared)
    return Plan(M, labels, n_shared, largest + n_shared)


def assign(
    source: RowSource,
    plan: Plan,
    partitioner: Partitioner | None,
    metric: np.ndarray,
    sample: Rows,
    *,
    partition_rng: np.random.RandomState,
    communication_rng: np.random.RandomState,
) -> tuple[list[Any], Rows | None]:
    """Assign every row to an expert.

    Parameters
    ----------
    source : RowSource
        In the units that the kernel sees.
    plan : Plan
    partitioner : Partitioner or None
        None where the plan has labels.
    metric : ndarray of shape (d,)
        Lengths that count as equal in the different inputs.
    sample : Rows
        Of the source; places shards.
    partition_rng, communication_rng : RandomState

    Returns
    -------
    parts : list
        `Parts`, or Delayed that stand for them.
    shared : Rows or None
        The communication set.
    """
    n = source.n
    shared = np.empty(0, dtype=np.int64)
    if plan.labels is not None:
        shared = np.flatnonzero(plan.labels < 0)
    if plan.n_shared and len(shared) == 0:
        shared = np.sort(communication_rng.choice(n, plan.n_shared, replace=False))
    communication = source.take(shared) if len(shared) else None
    if plan.labels is None and n > SAMPLE_ROWS:
        assert partitioner is not None
        return partition_shards(
            source, plan.n_experts, partitioner, metric, sample, shared, partition_rng
        ), communication
    rows = source.take(np.arange(n))
    own = np.setdiff1d(rows.number, shared, assume_unique=True)
    labels = np.zeros(n, dtype=np.int64) if plan.labels is None else plan.labels
    if partitioner is not None and plan.n_experts > 1:
        labels[own] = np.asarray(partitioner.partition(rows.X[own] / metric, plan.n_experts, partition_rng))
    return [sorted_parts(rows.take(own), labels[own])], communication


def warn_of_fewer(found: int, wanted: int) -> None:
    """Warn where some parts have no rows."""
    if found < wanted:
        warnings.warn(
            f"{wanted} parts were requested, but only {found} have rows: the inputs have too few distinct "
            "values, or the shared rows emptied some. Continuing with those.",
            FewerExpertsWarning,
            stacklevel=3,
        )


def labels_per_row(partition: Any, n: int) -> np.ndarray:
    """Return the labels that the user gave instead of a method, shape (n,)."""
    labels = np.asarray(partition)
    if labels.shape != (n,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            "partition must name a method ('auto', 'random', 'kmeans', 'balanced'), be a Partitioner, or be "
            f"an int array with one label per row, shape ({n},); got {labels.dtype} of shape {labels.shape}."
        )
    return labels


def communication_size(wanted: Any, n: int, M: int) -> int:
    """Return how many of n rows are shared by all M experts."""
    size = max(1, n // (M + 1)) if wanted is None else positive_int(wanted, "communication_size", "None or ")
    if n - size < M:
        raise ValueError(
            f"{n} rows cannot serve {M} experts and a communication set of {size} rows; choose fewer experts."
        )
    return size


def _given_labels(partition: Any, n: int, n_experts: Any, expert_size: Any, shares_rows: bool) -> np.ndarray:
    labels = labels_per_row(partition, n)
    if labels.min() < 0 and not shares_rows:
        raise ValueError(
            "partition holds negative labels; −1 marks rows that are shared by all experts, "
            "which only aggregation='grbcm' uses."
        )
    if not is_auto(expert_size):
        raise ValueError("expert_size has no meaning where partition gives the labels.")
    M = len(np.unique(labels[labels >= 0]))
    if not is_auto(n_experts) and n_experts != M:
        raise ValueError(f"n_experts={n_experts!r}, but partition holds {M} different labels.")
    if M == 0:
        raise ValueError("partition leaves no row to any expert: all labels are negative.")
    return labels.astype(np.int64, copy=True)
