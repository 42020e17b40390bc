"""Fitted trends and transformed targets in a file: coefficients, trees and powers as plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpexperts.exceptions import UnsavableModelError
from gpexperts.io.values import Decoder, Encoder, require
from gpexperts.target import Log, TargetTransform, YeoJohnson
from gpexperts.trend import ROLES, FittedTrend
from gpexperts.trend.regressors import Linear, Predictor
from gpexperts.trend.trees import Trees

__all__ = ["restored_target", "restored_trend", "target_tree", "trend_tree"]

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
        if not isinstance(predictor, (Linear, Trees)):
            raise UnsavableModelError(
                f"This model cannot be saved as .gpx: its trend is a {type(predictor).__module__}."
                f"{type(predictor).__qualname__}. A model file can only hold the trends 'linear' and "
                "'boosting', so that it is safe to open. Use one of these, or pickle the model."
            )
    return {
        "role": trend.role,
        "name": trend.name,
        "predictors": [
            out.named(vars(predictor), f"model.trend[{k}]") for k, predictor in enumerate(trend.predictors)
        ],
    }


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


def restored_trend(read: Decoder, tree: Any, d: int, p: int) -> FittedTrend | None:
    """Return the trend of a tree, for d inputs of the user and p outputs."""
    if tree is None:
        return None
    require(tree["role"] in ROLES and isinstance(tree["name"], str), "the trend has no role")
    require(len(tree["predictors"]) == p, "there is not one trend per output")
    return FittedTrend(tree["role"], tree["name"], tuple(_predictor(read, t, d) for t in tree["predictors"]))


def _predictor(read: Decoder, tree: dict[str, Any], d: int) -> Predictor:
    if "coef" in tree:
        linear = Linear(read.array(tree["coef"], (d,)), read.decode(tree["intercept"]))
        require(isinstance(linear.intercept, float), "the intercept of the trend is not a number")
        return linear
    nodes = len(read.peek(tree["value"]))
    shapes = {name: (None,) if name == "start" else (nodes,) for name in _ARRAYS}
    arrays = {name: read.array(tree[name], shapes[name], dtype) for name, dtype in _ARRAYS.items()}
    trees = Trees(**arrays, baseline=read.decode(tree["baseline"]), n_features=d)
    require(
        isinstance(trees.baseline, float) and read.decode(tree["n_features"]) == d, "the trees do not fit"
    )
    _check_trees(trees, nodes, d)
    return trees


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
