"""The only fit: rows in, a fitted model out, one line per stage.

    rows ─► hold out ─► prepare ─► scale, train ─► trend ─► assign to experts ─► build the store ─► model

Rows of this process and rows on a cluster take the same way; they differ in where rows come from (the
`RowSource`) and where experts are kept (the `ExpertStore`).
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from gpexperts.calibration import ABSENT, HELD_OUT, HOLDING, draw_held_out, kept_labels
from gpexperts.columns import ColumnEncoder
from gpexperts.experts.build import Assigned
from gpexperts.experts.store import Observations
from gpexperts.fit_experts import check_fit_memory, fit_experts
from gpexperts.fit_kernel import Streams, fit_kernel
from gpexperts.fit_trend import fit_trend, trains_first
from gpexperts.model import FittedModel
from gpexperts.partition.assign import Plan, labels_per_row, plan_parts
from gpexperts.preprocess import Prepared, prepare_rows
from gpexperts.rows.arrays import ArrayRows
from gpexperts.rows.base import SAMPLE_ROWS, Rows, RowSource, Units
from gpexperts.rows.dask import DaskRows
from gpexperts.settings import Settings
from gpexperts.student import with_student_noise
from gpexperts.trend import FittedTrend

__all__ = ["fit_model"]


def fit_model(
    rows: RowSource,
    settings: Settings,
    *,
    one_output: bool,
    encoder: ColumnEncoder | None = None,
    kept: np.ndarray | None = None,
    n_given: int | None = None,
) -> FittedModel:
    """Fit a model to rows in the user's units.

    Parameters
    ----------
    rows : RowSource
    settings : Settings
    one_output : bool
        Whether y had one dimension.
    encoder : ColumnEncoder, optional
        That has made the inputs of the rows; by default these are numbers.
    kept : ndarray of int, shape (n,), optional
        The number of each row among the `n_given` rows of the user, where some had weight 0.
    n_given : int, optional

    Returns
    -------
    FittedModel
    """
    encoder = ColumnEncoder.numbers(rows.n_features) if encoder is None else encoder
    n, streams = rows.n, Streams.of(settings["random_state"])
    held_out = np.empty(0, np.int64)
    if settings["calibrate"] in HOLDING:
        held_out = draw_held_out(n, streams.calibration)
    labels = _given_labels(settings, rows.n, kept, n_given)
    rows, kept_out, plan = _hold_out(rows, settings, labels, held_out)
    check_fit_memory(settings, rows.n, plan.largest)
    given = rows
    prepared = prepare_rows(rows, settings, streams.trend, encoder)
    rows, student = _kept(prepared.rows, rows), prepared.outliers is not None
    same, scaled = deepcopy(streams), None
    if trains_first(settings):
        scaled = fit_kernel(rows, settings, streams, encoder.layout(rows.n_features), student=student)
    trended = fit_trend(rows, scaled, settings, streams.trend, encoder)
    rows, found = _kept(trended.rows, rows), trended.trend
    choices = prepared.choices | trended.choices
    layout = encoder.layout(rows.n_features)
    if found is not None or scaled is None:
        streams = deepcopy(same)
        scaled = fit_kernel(rows, settings, streams, layout, student=student, start=trended.start)
    fitted = fit_experts(scaled, plan, settings, streams)
    if student:
        fitted = with_student_noise(fitted, rows, plan, settings, same, layout)
    trend = None if found is None else found.trend
    choices |= fitted.choices
    if encoder.choice is not None:
        choices["columns"] = encoder.choice
    of_y = given.summary()[1]
    return FittedModel(
        x_scale=fitted.units.x,
        y_scale=fitted.units.y,
        experts=fitted.experts,
        centroids=fitted.assigned.centroids,
        labels=_labels(fitted.assigned, n, held_out, kept, n_given),
        one_output=one_output,
        trace=tuple(fitted.trained.trace),
        choices=choices,
        seeds=streams.seeds,
        calibrate=settings["calibrate"],
        held_out=None if kept_out is None else _observations(kept_out, prepared, trend, fitted.units),
        encoder=encoder,
        y_summary=(of_y.mean, of_y.std),
        target=prepared.target,
        trend=trend,
        weight_unit=fitted.units.weight,
        targets=given.y if trend is not None and trend.is_mean and isinstance(given, ArrayRows) else None,
    )


def _kept(rows: RowSource, before: RowSource) -> RowSource:
    """Keep rows on the cluster, once something has changed them."""
    return rows.kept() if isinstance(rows, DaskRows) and rows is not before else rows


def _observations(rows: Rows, prepared: Prepared, trend: FittedTrend | None, units: Units) -> Observations:
    """Held-out rows with the inputs and targets of experts, in their units."""
    if prepared.target is not None:
        rows = Rows(rows.number, *prepared.target(rows))
    if prepared.outliers is not None:
        rows = Rows(rows.number, *prepared.outliers(rows._replace(number=np.full(len(rows.number), -1))))
    _, X, y, noise = rows
    if trend is not None:
        X, y = trend.rows(X, y, trend.mean(X))
    return Observations(*units.apply(X, y, noise))


def _given_labels(
    settings: Settings, n: int, kept: np.ndarray | None, n_given: int | None
) -> np.ndarray | None:
    """The labels that the user gave, of rows with a positive weight."""
    if settings.partitioner is not None:
        return None
    labels = labels_per_row(settings["partition"], n if n_given is None else n_given)
    return labels if kept is None else labels[kept]


def _hold_out(
    rows: RowSource, settings: Settings, labels: np.ndarray | None, held_out: np.ndarray
) -> tuple[RowSource, Rows | None, Plan]:
    """Take out the rows that calibrate intervals, and plan the parts of the others."""
    kept_out = None
    if len(held_out):
        if labels is not None:
            labels = kept_labels(labels, held_out)
        rows, kept_out = rows.without(held_out), rows.take(held_out)
    aggregator = settings.aggregator
    plan = plan_parts(
        rows.n,
        labels if labels is not None else settings.partitioner,
        settings["n_experts"],
        settings["expert_size"],
        shares_rows=aggregator.needs_communication,
        communication_rows=getattr(aggregator, "communication_size", None),
    )
    if rows.n <= SAMPLE_ROWS:
        rows = rows.in_memory()
    elif plan.labels is not None and isinstance(rows, DaskRows):
        raise ValueError(
            f"partition holds labels, but X is a dask collection of {rows.n} rows; name a method: "
            "'balanced', 'kmeans' or 'random'."
        )
    elif isinstance(rows, DaskRows) and settings["calibrate"] == "jackknife":
        raise ValueError(
            f"calibrate='jackknife' is not available for a dask collection of {rows.n} rows, which stay "
            "on the cluster; use calibrate='conformal' or 'scale'."
        )
    elif isinstance(rows, DaskRows):
        rows = rows.kept()
    return rows, kept_out, plan


def _labels(
    assigned: Assigned, n: int, held_out: np.ndarray, kept: np.ndarray | None, n_given: int | None
) -> np.ndarray | None:
    """The expert of each of the user's rows."""
    own = assigned.labels(n - len(held_out))
    if own is None:
        return None
    labels = np.full(n, HELD_OUT)
    labels[np.delete(np.arange(n), held_out)] = own
    if kept is None or n_given is None:
        return labels
    given = np.full(n_given, ABSENT)
    given[kept] = labels
    return given
