"""Fitted trends and transformed targets in a file: coefficients, trees and powers as plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpexperts.exceptions import CorruptModelError, NotPositiveDefiniteError, UnsavableModelError
from gpexperts.io.covariances import covariance_values, restored_covariance
from gpexperts.io.values import Decoder, Encoder, require
from gpexperts.kernels.raw import RawInputs
from gpexperts.kernels.stationary import StationaryCovariance
from gpexperts.scaling import Standardizer
from gpexperts.target import Log, TargetTransform, YeoJohnson
from gpexperts.trend import ROLES, FittedTrend
from gpexperts.trend.effects import Linear, LinearAndTrees
from gpexperts.trend.regressors import Predictor
from gpexperts.trend.sparse import InducingPoints, SparseGP
from gpexperts.trend.trees import Trees

__all__ = ["added_inputs", "restored_target", "restored_trend", "target_tree", "trend_tree"]

_MOST_POINTS = 4096
"""Inducing points of a trend: the time to restore them grows with their third power."""
_FEW_POINTS = 20
"""Of these, with a kernel that is slow to evaluate; the others are checked by the first prediction."""
_ARRAYS = {
    "start": np.int64,
    "feature": np.int64,
    "threshold": np.float64,
    "missing_left": np.bool_,
    "left": np.int64,
    "right": np.int64,
    "value": np.float64,
}


def trend_tree(out: Encoder, trend: FittedTrend | None) -> Any:
    """Return the tree of a trend; a regressor of the user cannot be stored."""
    if trend is None:
        return None
    for predictor in trend.predictors:
        if not isinstance(predictor, (Linear, Trees, LinearAndTrees, SparseGP)):
            raise UnsavableModelError(
                f"This model cannot be saved as .gpx: its trend is a {type(predictor).__module__}."
                f"{type(predictor).__qualname__}. A model file can only hold the trends 'linear', "
                "'boosting' and 'sparse', so that it is safe to open. Use one of these, or pickle the model."
            )
    return {
        "role": trend.role,
        "name": trend.name,
        "predictors": [
            _predictor_tree(out, predictor, f"model.trend[{k}]")
            for k, predictor in enumerate(trend.predictors)
        ],
    }


def _predictor_tree(out: Encoder, predictor: Predictor, name: str) -> dict[str, Any]:
    if not isinstance(predictor, LinearAndTrees):
        return out.named(_values(predictor), name)
    return {part: out.named(vars(each), f"{name}.{part}") for part, each in vars(predictor).items()}


def _values(predictor: Linear | Trees | SparseGP) -> dict[str, Any]:
    if not isinstance(predictor, SparseGP):
        return vars(predictor)
    return {
        **covariance_values(predictor.points.covariance),
        "Z": predictor.points.Z,
        "x_scale": [predictor.x_scale.shift, predictor.x_scale.scale],
        "y_scale": [predictor.y_scale.shift, predictor.y_scale.scale],
        "weights": predictor.coef,
        "factor": predictor.factor,
        "average_var": predictor.average_var,
    }


def added_inputs(tree: dict[str, Any], p: int) -> int:
    """How many inputs the trend of a tree adds, for p outputs."""
    return p if tree["role"] in ("input", "both") else 0


def target_tree(out: Encoder, target: TargetTransform | None) -> Any:
    """Return the tree of a transformed target; a transformer of the user cannot be stored."""
    if target is None or isinstance(target, Log):
        return None if target is None else {"name": "log"}
    if not isinstance(target, YeoJohnson):
        raise UnsavableModelError(
            f"This model cannot be saved as .gpx: target_transform is a {target.name}. A model file can only "
            "hold 'log' and 'yeo-johnson', so that it is safe to open. Use one of these, or pickle the model."
        )
    return {"name": "yeo-johnson", **out.named(vars(target), "model.target")}


def restored_target(read: Decoder, tree: Any, p: int) -> TargetTransform | None:
    """Return the transformed target of a tree, for p outputs."""
    if tree is None:
        return None
    if tree["name"] == "log":
        return Log()
    require(tree["name"] == "yeo-johnson", "the target has an unknown transform")
    power, scale = read.array(tree["power"], (p,)), read.array(tree["scale"], (p,))
    require(bool(((power >= 0) & (power <= 2) & (scale > 0)).all()), "a power of the target is not valid")
    return YeoJohnson(power, scale)


def restored_trend(
    read: Decoder, tree: Any, d: int, p: int, scale_index: np.ndarray | None
) -> FittedTrend | None:
    """Return the trend of a tree, for d inputs of the user, their length scales and p outputs."""
    if tree is None:
        return None
    require(tree["role"] in ROLES and isinstance(tree["name"], str), "the trend has no role")
    require(len(tree["predictors"]) == p, "there is not one trend per output")
    return FittedTrend(
        tree["role"], tree["name"], tuple(_predictor(read, t, d, scale_index) for t in tree["predictors"])
    )


def _predictor(read: Decoder, tree: dict[str, Any], d: int, scale_index: np.ndarray | None) -> Predictor:
    if "kernel" in tree:
        return _sparse(read, tree, d, scale_index)
    if "linear" in tree:
        return LinearAndTrees(_linear(read, tree["linear"], d), _trees(read, tree["trees"], d))
    return _linear(read, tree, d) if "coef" in tree else _trees(read, tree, d)


def _linear(read: Decoder, tree: dict[str, Any], d: int) -> Linear:
    linear = Linear(read.array(tree["coef"], (d,)), read.decode(tree["intercept"]))
    require(isinstance(linear.intercept, float), "the intercept of the trend is not a number")
    return linear


def _trees(read: Decoder, tree: dict[str, Any], d: int) -> Trees:
    nodes = len(read.peek(tree["value"]))
    shapes = {name: (None,) if name == "start" else (nodes,) for name in _ARRAYS}
    arrays = {name: read.array(tree[name], shapes[name], dtype) for name, dtype in _ARRAYS.items()}
    trees = Trees(**arrays, baseline=read.decode(tree["baseline"]), n_features=d)
    require(
        isinstance(trees.baseline, float) and read.decode(tree["n_features"]) == d, "the trees do not fit"
    )
    _check_trees(trees, nodes, d)
    return trees


def _sparse(read: Decoder, tree: dict[str, Any], d: int, scale_index: np.ndarray | None) -> SparseGP:
    """Restore a sparse GP; its inducing points are checked by the factor of their covariance matrix."""
    x_scale, y_scale = (
        Standardizer(*(read.array(part, (width,)) for part in tree[name]))
        for name, width in (("x_scale", d), ("y_scale", 1))
    )
    require(
        bool((x_scale.scale > 0).all() and (y_scale.scale > 0).all()), "a scale of the trend is not positive"
    )
    Z = read.array(tree["Z"], (None, d))
    u = len(Z)
    require(0 < u <= _MOST_POINTS, "the trend has no inducing points, or too many")
    points = InducingPoints(restored_covariance(read, tree, x_scale, Z, scale_index), Z)
    coef, factor = read.array(tree["weights"], (u,)), read.array(tree["factor"], (u, u))
    require(bool((np.diagonal(factor) > 0).all()), "the factor of the trend is not positive")
    average_var = read.decode(tree["average_var"])
    require(isinstance(average_var, float) and average_var >= 0.0, "the variance of the trend is negative")
    sparse = SparseGP(points, x_scale, y_scale, coef, factor, average_var)
    inner = points.covariance.raw if isinstance(points.covariance, RawInputs) else points.covariance
    if not isinstance(inner, StationaryCovariance):
        points = InducingPoints(points.covariance, Z[:_FEW_POINTS])
    try:
        points.features(Z[:1])
    except NotPositiveDefiniteError as error:
        raise CorruptModelError("the inducing points of the trend have no covariance matrix.") from error
    return sparse


def _check_trees(trees: Trees, nodes: int, d: int) -> None:
    """Refuse trees in which a row would not find a leaf."""
    start, own = trees.start, np.arange(nodes)
    borders = len(start) > 1 and start[0] == 0 and start[-1] == nodes and bool((np.diff(start) > 0).all())
    require(borders, "the trees of the trend have no roots")
    end = np.repeat(start[1:], np.diff(start))
    inner = trees.feature >= 0
    require(bool(((trees.feature >= -1) & (trees.feature < d)).all()), "a tree compares an unknown input")
    for child in (trees.left, trees.right):
        down = bool(((child > own) & (child < end))[inner].all())
        require(down and bool((child == own)[~inner].all()), "the nodes of a tree are not in order")
