"""What a fitted model holds, in the user's units and names: for `info`, the report and the plots."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gpexperts.kernels.named import hyperparameter_names
from gpexperts.training.likelihood import TraceRow

__all__ = [
    "Hyperparameter",
    "choices",
    "feature_names",
    "hyperparameters",
    "input_ranges",
    "length_scales",
    "names_were_checked",
    "noise_std",
    "single_output",
    "stages",
    "training_inputs",
    "training_targets",
]


class Hyperparameter(NamedTuple):
    """One trained number of the kernel, in the units the kernel sees."""

    name: str
    value: float


def feature_names(model: Any) -> list[str]:
    """Return the names of the inputs; x0, x1, … where the model was fitted without names."""
    check_is_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    return [f"x{k}" for k in range(model.n_features_in_)] if names is None else [str(n) for n in names]


def single_output(model: Any, what: str) -> None:
    """Raise an error where a model predicts several outputs."""
    check_is_fitted(model)
    if model._experts.n_outputs > 1:
        raise ValueError(f"{what} is for models of one target; this one has {model._experts.n_outputs}.")


def hyperparameters(model: Any) -> list[Hyperparameter]:
    """Return the kernel's free hyperparameters; length scales bear the names of their inputs."""
    names = feature_names(model)
    rows = []
    values = np.exp(model.kernel_.theta)
    for name, value in zip(hyperparameter_names(model.kernel_), values, strict=True):
        plain = name.split("__")[-1]
        if plain.startswith("length_scale["):
            plain = f"length_scale[{names[int(plain[13:-1])]}]"
        rows.append(Hyperparameter(plain, float(value)))
    return rows


def choices(model: Any) -> dict[str, str]:
    """Return what "auto" was resolved to, in a line each; `choices_` also holds the evidence."""
    return {name: line for name, value in model.choices_.items() if (line := _line(value))}


def _line(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    plain = {k: v for k, v in value.items() if isinstance(v, (int, float, str, np.number))}
    return ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in plain.items())


def stages(model: Any) -> list[list[TraceRow]]:
    """Return the trace of training, cut into its stages."""
    return [list(rows) for _, rows in groupby(model.trace_, key=lambda row: row.stage)]


def length_scales(model: Any) -> np.ndarray:
    """Return one length scale per input, in the input's units, shape (d,)."""
    d = model.n_features_in_
    return np.asarray(model._experts.covariance.length_scale(d) * model._x_scale.scale)


def noise_std(model: Any) -> float:
    """Return the standard deviation of the noise of the first target, in its units."""
    return float(np.sqrt(model._experts.covariance.noise_variance) * model._y_scale.scale[0])


def training_inputs(model: Any) -> np.ndarray:
    """Return the training inputs (n, d), sorted by expert, rows that experts share first."""
    return np.asarray(model._x_scale.restore(_rows(model, 0)))


def training_targets(model: Any) -> np.ndarray:
    """Return the training targets, (n,) or (n, p), in the order of `training_inputs`."""
    y = np.asarray(model._y_scale.restore(_rows(model, 1)))
    return y if model._y_ndim > 1 else y[:, 0]


def input_ranges(model: Any) -> np.ndarray:
    """Return the smallest and the largest training value of each input, (d, 2)."""
    Z = _rows(model, 0)
    return np.asarray(model._x_scale.restore(np.stack([Z.min(axis=0), Z.max(axis=0)]))).T


def _rows(model: Any, which: int) -> np.ndarray:
    check_is_fitted(model)
    experts = model._experts
    own = (experts.X, experts.y)[which]
    return own if experts.shared is None else np.concatenate([experts.shared[which], own])


@contextmanager
def names_were_checked() -> Iterator[None]:
    """Silence scikit-learn's warning of arrays without names, where names were checked before."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield
