"""New and forgotten rows: a fitted model with other rows, at the same hyperparameters, units and choices.

A new row goes to the part with the nearest centroid, in the metric of the kernel. A part that grows beyond
twice the size of the largest part of the fit is split in two along its longest axis. Only the factors of
parts that change are computed again, when they are next used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.spatial import cKDTree

from gpexperts.calibration import HELD_OUT
from gpexperts.experts.local import LocalExperts
from gpexperts.model import FORGOTTEN, FittedModel

__all__ = ["check_updatable", "density_loss", "with_rows", "without_rows"]

_CLIPPED = 40.0
"""Standardised residuals count up to this size: a single gross error does not decide."""


def check_updatable(model: FittedModel, what: str) -> LocalExperts:
    """Return the experts, or refuse a model whose rows cannot change."""
    experts = model.experts
    if not isinstance(experts, LocalExperts):
        raise ValueError(
            f"{what} is not available while the rows are on a cluster: use model.to_local(), or fit all rows "
            "again."
        )
    if experts.shared is not None:
        raise ValueError(
            f"{what} is not available for aggregation='grbcm', whose experts share rows. Fit all rows again."
        )
    return experts


def with_rows(model: FittedModel, X: np.ndarray, y: np.ndarray, *, split: bool) -> FittedModel:
    """Return the model with new rows.

    Parameters
    ----------
    model : FittedModel
        One that :func:`check_updatable` accepts.
    X, y : ndarray of shape (k, d) and (k, p)
        In the units of the experts.
    split : bool
        Whether parts that have grown are split.
    """
    experts = check_updatable(model, "partial_fit")
    labels = _labels(model, experts)
    metric = model.covariance.metric(np.ones(experts.n_features))
    _, part = cKDTree(model.centroids / metric).query(X / metric)
    order = np.argsort(part, kind="stable")
    at = experts.offsets[part[order] + 1]
    numbers = len(labels) + np.arange(len(X))
    grown = np.bincount(part, minlength=experts.n_experts)
    changed = experts.changed(
        np.insert(experts.X, at, X[order], axis=0),
        np.insert(experts.y, at, y[order], axis=0),
        experts.offsets + np.concatenate([[0], np.cumsum(grown)]),
        np.insert(experts.numbers, at, numbers[order]),
        unchanged=np.flatnonzero(grown == 0),
    )
    part_size = model.part_size or int(experts.sizes.max())
    updated = replace(model, experts=changed, labels=np.concatenate([labels, part]), part_size=part_size)
    return _split(updated, changed, metric) if split else updated


def _split(model: FittedModel, experts: LocalExperts, metric: np.ndarray) -> FittedModel:
    """Split parts of more than twice the size of the largest part of the fit; new parts come last."""
    large = np.flatnonzero(experts.sizes > 2 * model.part_size)
    if len(large) == 0:
        return model
    label = np.repeat(np.arange(experts.n_experts), experts.sizes)
    n_experts, queue, centroids = experts.n_experts, large.tolist(), model.centroids.copy()
    changed = set(large.tolist())
    while queue:
        i = queue.pop()
        rows = np.flatnonzero(label == i)
        if len(rows) <= 2 * model.part_size:
            continue
        Z = experts.X[rows] / metric
        Z = Z - Z.mean(axis=0)
        axis = np.linalg.eigh(Z.T @ Z)[1][:, -1]
        far = np.argsort(Z @ axis, kind="stable")[len(rows) // 2 :]
        label[rows[far]] = n_experts
        centroids = np.concatenate([centroids, experts.X[rows[far]].mean(axis=0)[None]])
        centroids[i] = experts.X[label == i].mean(axis=0)
        queue += [i, n_experts]
        n_experts += 1
    order = np.argsort(label, kind="stable")
    same = np.setdiff1d(np.arange(experts.n_experts), list(changed))
    offsets = np.searchsorted(label[order], np.arange(n_experts + 1))
    moved = experts.changed(
        experts.X[order], experts.y[order], offsets, experts.numbers[order], unchanged=same
    )
    assert model.labels is not None
    labels = model.labels.copy()
    labels[experts.numbers] = label
    return replace(model, experts=moved, centroids=centroids, labels=labels)


def without_rows(model: FittedModel, rows: Sequence[int] | np.ndarray) -> FittedModel:
    """Return the model without some rows, by their numbers.

    Raises
    ------
    ValueError
        For rows that are not there, and where a part would be empty.
    """
    experts = check_updatable(model, "forget")
    labels = _labels(model, experts)
    numbers = _checked_numbers(rows, labels)
    held = labels[numbers] == HELD_OUT
    kept_out = model.held_out
    if held.any():
        assert kept_out is not None
        stay = ~np.isin(np.flatnonzero(labels == HELD_OUT), numbers)
        if not stay.any():
            raise ValueError("These are all rows that calibrate holds out. Fit the other rows again instead.")
        kept_out = kept_out[0][stay], kept_out[1][stay]
    keep = ~np.isin(experts.numbers, numbers)
    offsets = np.concatenate([[0], np.cumsum(keep)])[experts.offsets]
    lost = experts.sizes - np.diff(offsets)
    if keep.sum() == 0:
        raise ValueError("These are all training rows. A model needs at least one.")
    empty = np.flatnonzero(lost == experts.sizes)
    if len(empty):
        raise ValueError(
            f"These are all {experts.sizes[empty[0]]} rows of part {empty[0]}. Keep one of them, or fit the "
            "other rows again."
        )
    changed = experts.changed(
        experts.X[keep], experts.y[keep], offsets, experts.numbers[keep], unchanged=np.flatnonzero(lost == 0)
    )
    labels = labels.copy()
    labels[numbers] = FORGOTTEN
    part_size = model.part_size or int(experts.sizes.max())
    return replace(model, experts=changed, labels=labels, held_out=kept_out, part_size=part_size)


def _checked_numbers(rows: Sequence[int] | np.ndarray, labels: np.ndarray) -> np.ndarray:
    numbers = np.atleast_1d(np.asarray(rows))
    if numbers.ndim != 1 or not (np.issubdtype(numbers.dtype, np.integer) or len(numbers) == 0):
        raise TypeError(f"rows must be row numbers, as integers, got {rows!r:.60}.")
    numbers = numbers.astype(np.int64)
    outside = numbers[(numbers < 0) | (numbers >= len(labels))]
    if len(outside):
        raise ValueError(f"Row {outside[0]} is not a training row; they are numbered 0 to {len(labels) - 1}.")
    values, counts = np.unique(numbers, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"Row {values[counts > 1][0]} is given twice.")
    gone = values[labels[values] == FORGOTTEN]
    if len(gone):
        raise ValueError(f"Row {gone[0]} has been forgotten already.")
    return values


def _labels(model: FittedModel, experts: LocalExperts) -> np.ndarray:
    """The expert of every row so far; made from the row numbers where the rows were on a cluster."""
    if model.labels is not None:
        return model.labels
    labels = np.full(int(experts.numbers.max()) + 1, FORGOTTEN)
    labels[experts.numbers] = np.repeat(np.arange(experts.n_experts), experts.sizes)
    return labels


def density_loss(z: np.ndarray, expected: float) -> float:
    """Nats per row that a constant factor of the variance would gain on new rows.

    Parameters
    ----------
    z : ndarray
        Standardised residuals of new rows, predicted before they were learned.
    expected : float
        Mean square of the standardised residuals of rows held out when the model was trained.
    """
    ratio = float(np.mean(np.minimum(np.abs(z), _CLIPPED) ** 2)) / max(expected, 1e-12)
    return 0.5 * (ratio - 1.0 - float(np.log(max(ratio, 1e-12))))
