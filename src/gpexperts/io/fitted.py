"""The fitted model in a file: rows, scaling, kernel, trace and choices."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpexperts.calibration import ABSENT, HELD_OUT, HOLDING, METHODS
from gpexperts.choices import Choice
from gpexperts.experts.dask import DaskExperts
from gpexperts.experts.local import LocalExperts
from gpexperts.experts.store import ExpertStore, Observations
from gpexperts.io.columns import encoder_tree, restored_encoder
from gpexperts.io.container import Streamed
from gpexperts.io.covariances import covariance_values, restored_covariance
from gpexperts.io.trends import added_inputs, restored_target, restored_trend, target_tree, trend_tree
from gpexperts.io.values import Decoder, Encoder, is_int, require
from gpexperts.model import FittedModel, Seeds
from gpexperts.row_noise import plain, weights
from gpexperts.scaling import Standardizer
from gpexperts.settings import Settings
from gpexperts.training.likelihood import TraceRow

__all__ = ["choice_trees", "model_tree", "restored_choices", "restored_model"]

_BATCH = 64 * 1024**2
"""Bytes of rows that are fetched from a cluster at once."""
_MAX_STEPS = 10_000
"""Steps of training in a trace."""


def model_tree(out: Encoder, model: FittedModel) -> dict[str, Any]:
    """Return the tree of a fitted model."""
    experts, trace = model.experts, model.trace
    X, y, numbers, noise = (_rows(experts, column) for column in range(4))
    jitter = dict(experts.jitter)
    values = {
        "x_scale": [model.x_scale.shift, model.x_scale.scale],
        "y_scale": [model.y_scale.shift, model.y_scale.scale],
        **covariance_values(model.covariance),
        "X": X,
        "y": y,
        "numbers": numbers,
        "noise": noise if noise.shape[1] else None,
        "offsets": experts.offsets.astype(np.int64),
        "shared": _observations_tree(experts.shared),
        "jitter": [np.array(list(jitter), dtype=np.int64), np.array(list(jitter.values()), dtype=float)],
        "centroids": model.centroids,
        "labels": None if model.labels is None else model.labels.astype(np.int64),
        "one_output": model.one_output,
        "trace": [np.array(column) for column in zip(*trace, strict=True)],
        "seeds": list(model.seeds),
        "calibrate": model.calibrate,
        "held_out": _observations_tree(model.held_out),
        "y_summary": list(model.y_summary),
        "targets": model.targets,
        "weight_unit": model.weight_unit,
        "part_size": model.part_size,
    }
    return {
        **out.named(values, "model"),
        "choices": choice_trees(out, model.choices),
        "columns": encoder_tree(out, model.encoder),
        "trend": trend_tree(out, model.trend),
        "target": target_tree(out, model.target),
    }


def _observations_tree(rows: Observations | None) -> list[Any] | None:
    return None if rows is None else [rows.X, rows.y, rows.noise if rows.noise.shape[1] else None]


def _rows(experts: ExpertStore, column: int) -> np.ndarray | Streamed:
    if isinstance(experts, LocalExperts):
        return (experts.X, experts.y, experts.numbers.astype(np.int64), experts.noise)[column]
    n = int(experts.offsets[-1])
    assert isinstance(experts, DaskExperts)
    shape = ((n, experts.n_features), (n, experts.n_outputs), (n,), (n, experts.noise_columns))[column]
    dtype = np.dtype(np.int64 if column == 2 else np.float64)
    return Streamed(shape, lambda: experts.row_batches(column, _BATCH), dtype)


def restored_model(read: Decoder, tree: dict[str, Any], settings: Settings) -> FittedModel:
    """Return the model of a tree, with its experts in this process."""
    X = read.array(tree["X"], (None, None))
    n, d = X.shape
    y = read.array(tree["y"], (n, None))
    p = y.shape[1]
    offsets = read.array(tree["offsets"], (None,), np.int64)
    M = len(offsets) - 1
    increasing = M > 0 and offsets[0] == 0 and offsets[-1] == n and bool((np.diff(offsets) > 0).all())
    require(increasing and d > 0 and p > 0, "there is an expert without rows, inputs or targets")
    x_scale, y_scale = (
        Standardizer(*(read.array(part, (width,)) for part in tree[name]))
        for name, width in (("x_scale", d), ("y_scale", p))
    )
    require(bool((x_scale.scale > 0).all() and (y_scale.scale > 0).all()), "a scale is not positive")
    n_inputs = d - (0 if tree["trend"] is None else added_inputs(tree["trend"], p))
    require(n_inputs > 0, "there are no inputs beside the trend")
    encoder = restored_encoder(read, tree["columns"], n_inputs)
    trend = restored_trend(read, tree["trend"], n_inputs, p, encoder.layout(n_inputs).scale_index)
    noise = _noise(read, tree["noise"], n)
    shared, held_out = (_observations(read, tree[name], d, p, noise) for name in ("shared", "held_out"))
    seen = n + (0 if shared is None else len(shared.X))
    total = seen + (0 if held_out is None else len(held_out.X))
    experts = LocalExperts(
        X,
        y,
        offsets,
        restored_covariance(read, tree, x_scale, X, encoder.layout(d).scale_index),
        numbers=_numbers(read, tree["numbers"], n, seen),
        noise=noise,
        shared=shared,
        factor_budget=settings.factor_budget,
    )
    which, jitter = tree["jitter"]
    which, jitter = read.array(which, (None,), np.int64), read.array(jitter, (None,))
    valid = len(which) <= M + 1 and bool(((which >= 0) & (which <= M)).all() and (jitter >= 0).all())
    require(valid, "jitter is not that of experts")
    experts.jitter = dict(zip(which.tolist(), jitter.tolist(), strict=True))
    labels, one_output, calibrate = tree["labels"], tree["one_output"], tree["calibrate"]
    if labels is not None:
        labels = read.array(labels, (None,), np.int64)
        require(bool(((labels >= ABSENT) & (labels < M)).all()), "a label is not that of an expert")
        counts = int((labels > ABSENT).sum()), int((labels > HELD_OUT).sum())
        require(counts == (total, seen), "there are not as many labels as rows")
    require(one_output is False or (one_output is True and p == 1), "one_output is wrong")
    require(calibrate in METHODS, "the calibration is unknown")
    require((calibrate in HOLDING) == (held_out is not None), "held-out rows and calibrate do not agree")
    mean, std = (read.array(part, (p,)) for part in tree["y_summary"])
    require(bool((std >= 0).all()), "the deviation of the targets is negative")
    part_size, weight_unit = tree["part_size"], read.decode(tree["weight_unit"])
    require(is_int(part_size, 0, 2**62), "the size of parts is not a number")
    positive = isinstance(weight_unit, float) and 0.0 < weight_unit < np.inf
    require(positive, "the unit of weights is not a positive number")
    seeds = Seeds(*tree["seeds"])
    require(all(is_int(seed, 0, 2**32 - 1) for seed in seeds), "a seed is not a number")
    return FittedModel(
        x_scale=x_scale,
        y_scale=y_scale,
        experts=experts,
        centroids=read.array(tree["centroids"], (M, d)),
        labels=labels,
        one_output=one_output,
        trace=_trace(read, tree["trace"]),
        choices=restored_choices(read, tree["choices"]),
        seeds=seeds,
        calibrate=calibrate,
        held_out=held_out,
        encoder=encoder,
        y_summary=(mean, std),
        trend=trend,
        target=restored_target(read, tree["target"], p),
        targets=None if tree["targets"] is None else read.array(tree["targets"], (seen, p)),
        weight_unit=weight_unit,
        part_size=part_size,
    )


def _numbers(read: Decoder, tree: Any, n: int, total: int) -> np.ndarray:
    """Restore the number of each of n rows among all training rows."""
    numbers = read.array(tree, (n,), np.int64)
    require(bool(((numbers >= 0) & (numbers < total)).all()), "a row number is not that of a training row")
    require(bool((np.bincount(numbers, minlength=total) <= 1).all()), "two rows have the same number")
    return numbers


def _observations(read: Decoder, trees: Any, d: int, p: int, like: np.ndarray) -> Observations | None:
    if trees is None:
        return None
    inputs, targets, noise = trees
    X = read.array(inputs, (None, d))
    require(len(X) > 0, "there are no shared or held-out rows")
    y, table = read.array(targets, (len(X), p)), _noise(read, noise, len(X))
    require(table.shape[1] == like.shape[1], "some rows have weights and some have none")
    return Observations(X, y, table)


def _noise(read: Decoder, tree: Any, n: int) -> np.ndarray:
    """Restore the table of noise of n rows; rows without weights have none."""
    if tree is None:
        return plain(n)
    noise = read.array(tree, (n, None))
    require(noise.shape[1] in (2, 4), "the table of noise has other columns")
    require(bool((weights(noise) > 0).all() and (noise >= 0).all()), "a weight is not positive")
    return noise


def _trace(read: Decoder, columns: Any) -> tuple[TraceRow, ...]:
    """Restore the trace, which is stored by columns: a row takes many times the memory of its numbers."""
    values = dict(zip(TraceRow._fields, (read.decode(column) for column in columns), strict=True))
    steps = len(values["step"])
    require(
        all(isinstance(column, np.ndarray) and column.dtype.kind in "if" for column in values.values())
        and all(values[name].shape == (steps,) for name in values.keys() - {"theta"})
        and values["theta"].ndim == 2
        and 0 < steps <= _MAX_STEPS,
        "the columns of the trace do not agree",
    )
    lists = (column if name == "theta" else column.tolist() for name, column in values.items())
    return tuple(TraceRow(*row) for row in zip(*lists, strict=True))


def choice_trees(out: Encoder, choices: dict[str, Choice]) -> dict[str, Any]:
    """Return the trees of choices, by name."""
    return {name: out.named(vars(choice), f"choices.{name}") for name, choice in choices.items()}


def restored_choices(read: Decoder, trees: Any) -> dict[str, Choice]:
    """Return the choices of trees, by name."""
    choices = {name: Choice(**read.named(tree)) for name, tree in trees.items()}
    plain = all(isinstance(c.reason, str) and isinstance(c.evidence, dict) for c in choices.values())
    require(plain, "a choice has no reason or no evidence")
    return choices
