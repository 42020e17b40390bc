"""New and forgotten rows: a fitted model with other rows, at the same hyperparameters, units and choices.

A new row goes to the part with the nearest centroid, in the metric of the kernel. The trend has not seen it:
its value is that of a query. Its weight is in the unit of the other rows. A part that grows beyond twice the
size of the largest part of the fit is split in two along its longest axis. Only the factors of parts that
change are computed again, when they are next used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpexperts.calibration import ABSENT, HELD_OUT
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.store import Observations
from gpexperts.leave_one_out import check_known, local_experts
from gpexperts.model import FittedModel
from gpexperts.row_noise import scaled, stretched, widened
from gpexperts.rows.base import Rows

__all__ = ["NewRows", "check_updatable", "density_loss", "given_rows", "with_rows", "without_rows"]

_CLIPPED = 40.0
"""Standardised residuals count up to this size: a single gross error does not decide."""


def check_updatable(model: FittedModel, what: str) -> LocalExperts:
    """Return the experts, or refuse a model whose rows cannot change."""
    experts = local_experts(model, what)
    check_known(model, what)
    return experts


class NewRows(NamedTuple):
    """Rows that a model gets."""

    seen: Observations
    """Those of positive weight, as experts see them."""
    targets: np.ndarray
    """(k, p) their targets, in the user's units."""
    kept: np.ndarray
    """(k,) their numbers among the new rows."""
    n: int
    """New rows, with those of weight 0."""


def with_rows(model: FittedModel, new: NewRows, *, split: bool) -> FittedModel:
    """Return the model with new rows.

    Parameters
    ----------
    model : FittedModel
        One that :func:`check_updatable` accepts.
    new : NewRows
    split : bool
        Whether parts that have grown are split.
    """
    experts = check_updatable(model, "partial_fit")
    labels = _labels(model, experts)
    columns = max(experts.noise.shape[1], new.seen.noise.shape[1])
    seen = new.seen._replace(noise=widened(new.seen.noise, columns))
    own = Observations(experts.X, experts.y, widened(experts.noise, columns))
    part = model.nearest_parts(seen.X)
    order = np.argsort(part, kind="stable")
    at = experts.offsets[part[order] + 1]
    numbers = len(experts.X) + np.arange(len(part))
    grown = np.bincount(part, minlength=experts.n_experts)
    changed = experts.changed(
        Observations(*(np.insert(a, at, b[order], axis=0) for a, b in zip(own, seen, strict=True))),
        experts.offsets + np.concatenate([[0], np.cumsum(grown)]),
        np.insert(experts.numbers, at, numbers[order]),
        unchanged=np.flatnonzero(grown == 0),
    )
    more = np.full(new.n, ABSENT)
    more[new.kept] = part
    held = model.held_out
    updated = replace(
        model,
        experts=changed,
        labels=np.concatenate([labels, more]),
        part_size=model.part_size or int(experts.sizes.max()),
        targets=None if model.targets is None else np.concatenate([model.targets, new.targets]),
        held_out=None if held is None else held._replace(noise=widened(held.noise, columns)),
    )
    return _split(updated, changed) if split else updated


def _split(model: FittedModel, experts: LocalExperts) -> FittedModel:
    """Split parts of more than twice the size of the largest part of the fit; new parts come last."""
    large = np.flatnonzero(experts.sizes > 2 * model.part_size)
    if len(large) == 0:
        return model
    metric = model.covariance.metric(np.ones(experts.n_features))
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
    moved = experts.changed(experts.take(order), offsets, experts.numbers[order], unchanged=same)
    assert model.labels is not None
    assert model.row_numbers is not None
    labels = model.labels.copy()
    labels[model.row_numbers[experts.numbers]] = label
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
        kept_out = Observations(*(column[stay] for column in kept_out))
    stays = ~np.isin(np.flatnonzero(labels >= 0), numbers)  # by the number among the rows of experts
    keep = stays[experts.numbers]
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
    counted = (np.cumsum(stays) - 1)[experts.numbers[keep]]
    changed = experts.changed(experts.take(keep), offsets, counted, unchanged=np.flatnonzero(lost == 0))
    labels = labels.copy()
    labels[numbers] = ABSENT
    return replace(
        model,
        experts=changed,
        labels=labels,
        held_out=kept_out,
        part_size=model.part_size or int(experts.sizes.max()),
        targets=None if model.targets is None else model.targets[stays],
    )


def _checked_numbers(rows: Sequence[int] | np.ndarray, labels: np.ndarray) -> np.ndarray:
    numbers = np.atleast_1d(np.asarray(rows))
    if numbers.ndim != 1 or not (np.issubdtype(numbers.dtype, np.integer) or len(numbers) == 0):
        got = " a mask. Use np.flatnonzero(mask)" if numbers.dtype == bool else f" {rows!r:.60}"
        raise TypeError(f"rows must be row numbers, as integers, got{got}.")
    numbers = numbers.astype(np.int64)
    outside = numbers[(numbers < 0) | (numbers >= len(labels))]
    if len(outside):
        raise ValueError(f"Row {outside[0]} is not a training row; they are numbered 0 to {len(labels) - 1}.")
    values, counts = np.unique(numbers, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"Row {values[counts > 1][0]} is given twice.")
    gone = values[labels[values] == ABSENT]
    if len(gone):
        raise ValueError(f"Row {gone[0]} has weight 0, or has been forgotten already.")
    return values


def _labels(model: FittedModel, experts: LocalExperts) -> np.ndarray:
    """The expert of every row so far; made from the row numbers where the rows were on a cluster."""
    if model.labels is not None:
        return model.labels
    labels = np.empty(len(experts.X), dtype=np.int64)
    labels[experts.numbers] = np.repeat(np.arange(experts.n_experts), experts.sizes)
    return labels


def given_rows(model: FittedModel) -> tuple[Rows, np.ndarray]:
    """Return all present rows in the user's units, by ascending number, and the part of each.

    A row that was held out is given to the nearest part.
    """
    experts = check_updatable(model, "Training again")
    labels = _labels(model, experts)
    number, rows = (
        np.flatnonzero(labels >= 0)[experts.numbers],
        Observations(experts.X, experts.y, experts.noise),
    )
    y = model.user_targets(*rows[:2]) if model.targets is None else model.targets[experts.numbers]
    part = labels[number]
    if model.held_out is not None:
        held = model.held_out
        number = np.concatenate([number, np.flatnonzero(labels == HELD_OUT)])
        rows = Observations(*map(np.concatenate, zip(rows, held, strict=True)))
        y = np.concatenate([y, model.user_targets(held.X, held.y)])
        part = np.concatenate([part, model.nearest_parts(held.X)])
    noise = scaled(rows.noise[:, :2], 1.0 / float(model.y_scale.scale[0]), 1.0 / model.weight_unit)
    if model.target is not None and model.n_outputs == 1:
        noise = stretched(noise, np.exp(-model.target.log_slope(y)[:, 0]))
    order = np.argsort(number)
    given = Rows(number, np.ascontiguousarray(model.user_inputs(rows.X)), y, noise)
    return Rows(*(column[order] for column in given)), part[order]


def density_loss(z: np.ndarray, held_out: np.ndarray | None) -> float:
    """Nats per row that a constant factor of the variance would gain on new rows.

    Parameters
    ----------
    z : ndarray
        Standardised residuals of new rows, predicted before they were learned.
    held_out : ndarray or None
        Those of rows that were held out when the model was trained; without them their mean square is 1.
    """
    expected = 1.0 if held_out is None else max(_mean_square(held_out), 1e-12)
    ratio = max(_mean_square(z) / expected, 1e-12)
    return 0.5 * (ratio - 1.0 - float(np.log(ratio)))


def _mean_square(z: np.ndarray) -> float:
    return float(np.mean(np.minimum(np.abs(z), _CLIPPED) ** 2))
