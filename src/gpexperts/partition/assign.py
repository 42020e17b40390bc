"""From the user's wishes to a label for every row: methods, given labels, shared rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gpexperts.aggregation.base import Aggregator
from gpexperts.exceptions import FewerExpertsWarning
from gpexperts.partition.base import Partitioner, compact
from gpexperts.settings import automatic_n_experts, number_of_experts, positive_int

__all__ = ["communication_size", "deal_rows", "labels_are_given", "labels_per_row", "least_rows"]


def labels_are_given(partition: Any) -> bool:
    """Whether `partition` is neither a name nor a method, and so must be the labels themselves."""
    return not isinstance(partition, (str, Partitioner))


def deal_rows(
    X: np.ndarray,
    partition: Any,
    n_experts: Any,
    expert_size: Any,
    aggregator: Aggregator,
    *,
    partition_rng: np.random.RandomState,
    communication_rng: np.random.RandomState,
) -> np.ndarray:
    """Return the expert of each row, 0 … M − 1, or −1 for rows that all experts share.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs, in the metric in which parts are to be compact.
    partition : Partitioner or array of int
    n_experts, expert_size : int or "auto"
    aggregator : Aggregator
        Says whether some rows are to be shared.
    partition_rng, communication_rng : RandomState

    Returns
    -------
    labels : ndarray of int, shape (n,)
    """
    n = len(X)
    if isinstance(partition, Partitioner):
        labels = np.zeros(n, dtype=np.int64)
        M = number_of_experts(n_experts, expert_size, n, automatic_n_experts(n))
    else:
        labels = _given_labels(partition, n, n_experts, expert_size, aggregator)
        M = len(np.unique(labels[labels >= 0]))
    shared = np.flatnonzero(labels < 0)
    if aggregator.needs_communication and len(shared) == 0:
        shared = np.sort(communication_rng.choice(n, communication_size(aggregator, n, M), replace=False))
    mine = np.setdiff1d(np.arange(n), shared, assume_unique=True)
    if isinstance(partition, Partitioner) and M > 1:
        labels[mine] = np.asarray(partition.partition(X[mine], M, partition_rng))
    labels[mine] = compact(labels[mine])
    labels[shared] = -1
    found = int(labels.max()) + 1
    if found < M:
        warnings.warn(
            f"{M} parts were asked for, but only {found} have rows: the inputs have too few distinct "
            "values, or the shared rows emptied some. Continuing with those.",
            FewerExpertsWarning,
            stacklevel=3,
        )
    return labels


def least_rows(partition: Any, n_experts: Any, expert_size: Any, aggregator: Aggregator, n: int) -> int:
    """How many rows the largest expert will see at least, known before any row is dealt."""
    if labels_are_given(partition):
        labels = _given_labels(partition, n, n_experts, expert_size, aggregator)
        M, shared = len(np.unique(labels[labels >= 0])), int((labels < 0).sum())
        largest = int(np.bincount(compact(labels[labels >= 0])).max())
    else:
        M, shared = number_of_experts(n_experts, expert_size, n, automatic_n_experts(n)), 0
        largest = -(-n // M)
    if aggregator.needs_communication and shared == 0:
        shared = communication_size(aggregator, n, M)
        largest = max(-(-(n - shared) // M), largest - shared)
    return largest + shared


def labels_per_row(partition: Any, n: int) -> np.ndarray:
    """Return the labels that the user gave instead of a method, shape (n,)."""
    labels = np.asarray(partition)
    if labels.shape != (n,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            "partition must name a method ('auto', 'random', 'kmeans', 'balanced'), be a Partitioner, or be "
            f"an int array with one label per row, shape ({n},); got {labels.dtype} of shape {labels.shape}."
        )
    return labels


def _given_labels(
    partition: Any, n: int, n_experts: Any, expert_size: Any, aggregator: Aggregator
) -> np.ndarray:
    labels = labels_per_row(partition, n)
    if labels.min() < 0 and not aggregator.needs_communication:
        raise ValueError(
            "partition holds negative labels; −1 marks rows that are shared by all experts, "
            "which only aggregation='grbcm' uses."
        )
    if expert_size != "auto":
        raise ValueError("expert_size has no meaning where partition gives the labels.")
    M = len(np.unique(labels[labels >= 0]))
    if n_experts not in ("auto", M):
        raise ValueError(f"n_experts={n_experts!r}, but partition holds {M} different labels.")
    if M == 0:
        raise ValueError("partition leaves no row to any expert: all labels are negative.")
    return labels.astype(np.int64, copy=True)


def communication_size(aggregator: Any, n: int, M: int) -> int:
    """How many of n rows all M experts share."""
    wanted = getattr(aggregator, "communication_size", None)
    size = max(1, n // (M + 1)) if wanted is None else positive_int(wanted, "communication_size", "None")
    if n - size < M:
        raise ValueError(
            f"{n} rows cannot serve {M} experts and a communication set of {size} rows; choose fewer experts."
        )
    return size
