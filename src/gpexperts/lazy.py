"""Lazy prediction of Dask arrays and data frames, on the cluster that holds the experts.

A partition of queries becomes one task per shard of experts and a few more: choose partitions of some ten
thousand rows. Repairs and jitter are reported to the client by Dask's events, when a partition is computed.

A prediction's own `compute` and :func:`compute` wait as long as the engine allows, and then raise a
ClusterError. `dask.compute` and `client.compute` are waits of Dask, which have no limit.
"""

from __future__ import annotations

import uuid
import weakref
from typing import Any

import numpy as np

from gpexperts.calibration import Widths
from gpexperts.columns.encoder import warn_of_columns
from gpexperts.experts.dask import DaskExperts, Gathered
from gpexperts.formula import Formula
from gpexperts.predictor import Predictor
from gpexperts.rows.collections import checked_inputs, lazy_partitions
from gpexperts.trend import TrendValues

__all__ = ["compute", "lazy_interval", "predict_lazily"]


def predict_lazily(
    predictor: Predictor,
    X: Any,
    names: list[str] | None,
    *,
    return_std: bool,
    latent: bool,
    widths: Widths | None = None,
) -> Any:
    """Return dask arrays of means, and of standard deviations if requested; nothing is computed yet.

    Parameters
    ----------
    predictor : Predictor
        Of a model whose experts are on a cluster.
    X : dask array or frame
    names : list of str or None
        Columns that the model was fitted with.
    return_std, latent : bool
        As in `predict`.
    widths : Widths, optional
        Returns the ends of intervals of these widths instead.
    """
    import dask.array as da

    from gpexperts.lazy_arrays import limited

    model, experts = predictor.model, predictor.model.experts
    assert isinstance(experts, DaskExperts)
    engine = experts.engine
    queries = lazy_partitions(X, "X")
    if queries.names is not None and names is not None and queries.names != names:
        raise ValueError(
            f"The columns of X are {queries.names}, but the model was fitted with {names}; select them in "
            "that order."
        )
    topic = _subscribed(predictor, engine.client)
    (formula,) = engine.persist([engine.task("formula", _same, _Opaque(predictor.formula))])
    everything = list(range(len(experts.shards)))
    arrays: tuple[list[Any], list[Any]] = [], []
    for b, block in enumerate(queries.blocks):
        # Each task depends on the formula or on several others. Dask fuses chains of single dependencies
        # differently from one call of compute to the next: one name would stand for different work.
        queries_b = engine.task(f"queries {b}", _queries, b, block, formula, topic)
        X_b, added = (engine.task(f"queries {b}", _item, queries_b, k, formula) for k in (0, 1))
        index = engine.task(f"selected experts of queries {b}", _selected, X_b, formula)
        gathered = experts.graph(X_b, index, everything, predictor.formula.request)
        predicted = engine.task(
            f"predictions {b}", _predicted, gathered, added, formula, latent, _Opaque(widths), topic
        )
        n = queries.lengths[b] if queries.lengths is not None else np.nan
        shape = (n,) if model.one_output else (n, model.n_outputs)
        for k in (0, 1):
            value = engine.task(f"predictions {b}", _value, predicted, k, model.one_output, formula)
            arrays[k].append(da.from_delayed(value, shape=shape, dtype=float))
    mean, std = (limited(da.concatenate(pieces), engine) for pieces in arrays)
    return (mean, std) if return_std else mean


def lazy_interval(mean: Any, std: Any, widths: Widths) -> tuple[Any, Any]:
    """Return mean ∓ width · std of lazy predictions, with the same limits of waiting."""
    from gpexperts.lazy_arrays import limited

    half = std.map_blocks(widths, dtype=float) * std
    return limited(mean - half, mean.engine), limited(mean + half, mean.engine)


def compute(*arrays: Any) -> tuple[np.ndarray, ...]:
    """Compute lazy predictions of one model together, in one limited wait.

    Parameters
    ----------
    *arrays : dask array
        As `predict` returns them.

    Raises
    ------
    ClusterError
        If the cluster cannot go on; see `DaskEngine`.
    """
    from gpexperts.lazy_arrays import computed

    return computed(arrays)


def _subscribed(predictor: Predictor, client: Any) -> str:
    """Return the topic on which workers report repairs and jitter to the predictor."""
    topic = f"gpexperts-{uuid.uuid4().hex}"
    reference = weakref.ref(predictor)  # the client would keep the experts on the cluster for ever

    def receive(event: Any) -> None:
        _, report = event
        predictor = reference()
        if predictor is None:
            return
        warn_of_columns(report["columns"], f"Partition {report['partition']} of X")
        predictor.count_repairs(int(report["repaired"]))
        predictor.model.experts.jitter.update({int(i): float(j) for i, j in report["jitter"]})
        predictor.report_jitter()

    client.subscribe_topic(topic, receive)
    return topic


class _Opaque:
    """Hides a value from Dask, which would look for tasks in it."""

    def __init__(self, value: Any) -> None:
        self.value = value


# ------------------------------------------------------------------------------ what a worker computes


def _same(opaque: _Opaque) -> Any:
    return opaque.value


def _item(values: tuple[Any, ...], k: int, formula: Formula) -> Any:
    return values[k]


def _report(topic: str, **news: Any) -> None:
    from distributed import get_worker

    get_worker().log_event(topic, {"repaired": 0, "jitter": [], "columns": [], "partition": 0, **news})


def _queries(number: int, X: Any, formula: Formula, topic: str) -> tuple[np.ndarray, TrendValues]:
    """The queries of a partition in the units of the experts, and what the trend adds."""
    X, d = checked_inputs(number, X), formula.encoder.n_features
    if X.shape[1] != d:
        raise ValueError(
            f"X has {X.shape[1]} features, but DistributedGPRegressor is expecting {d} features as input."
        )
    Z, notes = formula.encoder.encoded(X)
    if notes:
        _report(topic, columns=notes, partition=number)
    return formula.inputs(Z)


def _selected(X: np.ndarray, formula: Formula) -> np.ndarray:
    return formula.select(X)


def _predicted(
    gathered: Gathered,
    added: TrendValues,
    formula: Formula,
    latent: bool,
    widths: _Opaque,
    topic: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (n, p), or the ends of intervals, in the user's units."""
    prediction = formula.aggregator.combine(gathered.moments)
    if prediction.repaired or gathered.jitter:
        _report(topic, repaired=prediction.repaired, jitter=list(gathered.jitter.items()))
    var = formula.variance(prediction, latent)
    if widths.value is not None:
        return formula.interval(prediction.mean, var, added, widths.value)
    return formula.restored(prediction.mean, var, added, latent=latent)


def _value(
    predicted: tuple[np.ndarray, np.ndarray], k: int, one_output: bool, formula: Formula
) -> np.ndarray:
    return predicted[k][:, 0] if one_output else predicted[k]
