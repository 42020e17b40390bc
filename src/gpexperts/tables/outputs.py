"""The columns of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpexperts.exceptions import TableError
from gpexperts.explanation import OwnExplanation
from gpexperts.tables.arrow import pa

__all__ = ["check_kept", "output_columns"]

_EXPLAINED = ("experts", "weights", "own_weight", "rows", "row_weights")
_MAX_NEIGHBOURS = 10
"""Rows of the own expert that an explanation lists."""


def _names(model: Any) -> list[str]:
    """What the names of mean, std, lower and upper begin with: the target, if there are several."""
    if model.model_.one_output:
        return [""]
    table = getattr(model, "table_", None)
    targets = table.targets if table is not None else range(model.model_.experts.n_outputs)
    return [f"{target}_" for target in targets]


def check_kept(model: Any, keep: Sequence[str], explain: bool) -> None:
    """Raise an error if a kept column has the name of an output, or if nothing can be explained."""
    made = [prefix + name for prefix in _names(model) for name in ("mean", "std", "lower", "upper")]
    clash = [name for name in keep if name in (*made, *_EXPLAINED, "outside")]
    if clash:
        raise TableError(f"The column {clash[0]} cannot be kept: the output has a column of that name.")
    if explain and not model.model_.one_output:
        raise TableError("--explain is for models of one target.")


def output_columns(
    model: Any, X: pa.Table, possible: np.ndarray, level: float, explain: bool
) -> dict[str, Any]:
    """Return the predictions of a batch, null where a row cannot be predicted.

    Parameters
    ----------
    model : DistributedGPRegressor
    X : Table
        Inputs of the rows that can be predicted.
    possible : ndarray of bool, shape (n,)
        Which rows these are.
    level : float
    explain : bool
    """
    more: dict[str, Any] = {}
    if explain:
        explanation = model.explain(X)
        mean, std, selected = explanation.mean, explanation.std, explanation.experts >= 0
        ends = np.concatenate([[0], np.cumsum(selected.sum(axis=1))]).astype(np.int32)
        more["experts"] = pa.ListArray.from_arrays(ends, explanation.experts[selected].astype(np.int64))
        more["weights"] = pa.ListArray.from_arrays(ends, explanation.weight[selected])
        if explanation.own is not None:
            more |= _own(model, explanation.own)
    else:
        mean, std = model.predict(X, return_std=True)
    lower, upper = _interval(model, X, mean, std, level)
    out: dict[str, Any] = {}
    named = {"mean": mean, "std": std, "lower": lower, "upper": upper}
    for i, prefix in enumerate(_names(model)):
        out |= {prefix + name: pa.array(v if v.ndim == 1 else v[:, i]) for name, v in named.items()}
    out |= more
    if possible.all():
        return out
    places = np.full(len(possible), -1)
    places[possible] = np.arange(possible.sum())
    index = pa.array(places, mask=~possible)
    return {name: pa.array(values).take(index) for name, values in out.items()}


def _interval(
    model: Any, X: pa.Table, mean: np.ndarray, std: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    if model.model_.target is not None:  # then intervals are not symmetric
        lower, upper = model.predict_interval(X, level)
        return lower, upper
    half = model.interval_width(level, std) * std
    return mean - half, mean + half


def _own(model: Any, own: OwnExplanation) -> dict[str, Any]:
    """The weight of the own expert, and its rows with the largest weights, numbered as in the file."""
    columns = own.largest(_MAX_NEIGHBOURS)
    ends = (columns.shape[1] * np.arange(len(columns) + 1)).astype(np.int32)
    rows = np.take_along_axis(own.rows, columns, axis=1).astype(np.int64).ravel()
    table = getattr(model, "table_", None)
    rows = rows + 1 if table is None else table.row_numbers(rows)
    weights = np.take_along_axis(own.row_weight, columns, axis=1)
    return {
        "own_weight": pa.array(own.weight),
        "rows": pa.ListArray.from_arrays(ends, rows),
        "row_weights": pa.ListArray.from_arrays(ends, weights.ravel()),
    }
