"""Facts about a fitted model, in the units and names of the user; for `info`, the report and the plots."""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from gpexperts.kernels.named import hyperparameter_names
from gpexperts.kernels.raw import of_scales
from gpexperts.metrics import Width, share_inside
from gpexperts.model import FittedModel
from gpexperts.prepare import experts_view
from gpexperts.selection import GGMSelector
from gpexperts.training.likelihood import TraceRow

__all__ = [
    "ExpertGraph",
    "Hyperparameter",
    "ModelColumn",
    "calibration_curve",
    "choices",
    "encoded_rows",
    "expert_graph",
    "expert_positions",
    "feature_names",
    "file_row_numbers",
    "find_column",
    "find_number",
    "hyperparameters",
    "input_ranges",
    "length_scales",
    "model_columns",
    "n_training_rows",
    "noise_std",
    "principal_axes",
    "scale_names",
    "scale_spreads",
    "scored",
    "selection_counts",
    "single_output",
    "stages",
    "targets_by_number",
    "training_inputs",
    "training_row_numbers",
    "training_targets",
]


class Hyperparameter(NamedTuple):
    """One trained hyperparameter of `kernel_`."""

    name: str
    value: float


class ModelColumn(NamedTuple):
    """A column of the user's table, and the inputs of the model that encode it."""

    name: str
    kind: str
    """"number", "boolean", "category", "date" or "empty"."""
    inputs: slice
    """Positions among the inputs of the model."""
    column: Any
    """How it is encoded, a `gpexperts.columns.Column`."""


class ExpertGraph(NamedTuple):
    """Gaussian graphical model of the experts' predictions."""

    precision: np.ndarray
    """Ω, (M, M)."""
    selected: np.ndarray
    """The most important experts, (K,)."""


# ------------------------------------------------------------------------------- names and numbers


def feature_names(model: Any) -> list[str]:
    """Return the names of the inputs; x0, x1, … if the model was fitted without names."""
    check_is_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    return [f"x{k}" for k in range(model.n_features_in_)] if names is None else [str(n) for n in names]


def model_columns(model: Any) -> list[ModelColumn]:
    """Return the columns of the table that a model was fitted on."""
    columns, start = [], 0
    for name, column in zip(feature_names(model), model.model_.encoder.columns, strict=True):
        columns.append(ModelColumn(name, column.kind, slice(start, start + column.width), column))
        start += column.width
    return columns


def find_column(model: Any, feature: int | str) -> ModelColumn:
    """Return the column with a number (from 0) or a name."""
    columns = model_columns(model)
    names = [column.name for column in columns]
    if isinstance(feature, str) and feature in names:
        return columns[names.index(feature)]
    if not isinstance(feature, str) and -len(columns) <= feature < len(columns):
        return columns[feature]
    raise ValueError(f"There is no input {feature!r}; the inputs are {', '.join(names)}.")


def find_number(model: Any, feature: int | str) -> ModelColumn:
    """Return the column with a number or a name, which must hold numbers."""
    column = find_column(model, feature)
    if column.kind != "number":
        raise ValueError(f"The input {column.name!r} is a {column.kind}; a number is needed.")
    return column


def encoded_rows(model: Any, X: Any) -> np.ndarray:
    """Return rows of the user (n, columns) as the numbers of the model (n, d)."""
    check_is_fitted(model)
    X, _ = model.model_.encoder.encoded(X if hasattr(X, "columns") else np.asarray(X))
    return np.asarray(X)


def single_output(model: Any, what: str) -> None:
    """Raise an error if a model predicts several outputs."""
    check_is_fitted(model)
    n_outputs = model.model_.experts.n_outputs
    if n_outputs > 1:
        raise ValueError(f"{what} is for models of one target; this one has {n_outputs}.")


def hyperparameters(model: Any) -> list[Hyperparameter]:
    """Return the free hyperparameters of `kernel_`; length scales have the names of their inputs."""
    trend = model.model_.trend
    names = [*scale_names(model), *(["trend"] * (0 if trend is None else trend.n_inputs))]
    rows = []
    values = np.exp(model.kernel_.theta)
    for name, value in zip(hyperparameter_names(model.kernel_), values, strict=True):
        plain = name.split("__")[-1]
        if plain.startswith("length_scale["):
            plain = f"length_scale[{names[int(plain[13:-1])]}]"
        rows.append(Hyperparameter(plain, float(value)))
    return rows


def choices(model: Any) -> dict[str, str]:
    """Return "value: reason" for each parameter that was "auto"; `choices_` also has the evidence."""
    check_is_fitted(model)
    return {name: str(choice) for name, choice in model.choices_.items()}


def stages(model: Any) -> list[list[TraceRow]]:
    """Return the trace of training, one list per stage."""
    check_is_fitted(model)
    return [list(rows) for _, rows in groupby(model.trace_, key=lambda row: row.stage)]


def scale_names(model: Any) -> list[str]:
    """Return one name per length scale: an input, or what of a column shares one, as "when (hour)"."""
    encoder = model.model_.encoder
    return feature_names(model) if encoder.is_plain else encoder.scale_names


def length_scales(model: Any) -> np.ndarray:
    """Return the length scales in the units of their inputs, shape (g,), in the order of `scale_names`."""
    check_is_fitted(model)
    fitted = model.model_
    lengths = fitted.covariance.metric(np.ones(fitted.experts.n_features)) * fitted.x_scale.scale
    # Without those of a trend, which come last.
    return np.asarray(of_scales(lengths[: fitted.encoder.width], fitted.encoder.scale_index))


def scale_spreads(model: Any, X: np.ndarray) -> np.ndarray:
    """Return the standard deviation of the encoded rows X (n, d) in the inputs of each length scale, (g,)."""
    check_is_fitted(model)
    index, spread = model.model_.encoder.scale_index, X.std(axis=0)
    return spread if index is None else np.sqrt(np.bincount(index, weights=spread**2))


def noise_std(model: Any) -> float:
    """Return the standard deviation of the noise of the first target, in its units; transformed if it is."""
    check_is_fitted(model)
    return float(np.sqrt(model.model_.covariance.noise_variance) * model.model_.y_scale.scale[0])


# ----------------------------------------------------------------------------------- training rows


def n_training_rows(model: Any) -> int:
    """Return the number of rows of all experts; rows held out by `calibrate` do not count."""
    check_is_fitted(model)
    experts = model.model_.experts
    return int(experts.sizes.sum()) + (0 if experts.shared is None else len(experts.shared.X))


def training_inputs(model: Any) -> np.ndarray:
    """Return the training inputs (n, d), sorted by expert; rows that all experts share come first.

    Categories, gaps and dates are encoded; `model_.encoder.decode` returns them.
    """
    X, _ = _training_rows(model)
    return np.asarray(model.model_.user_inputs(X))


def training_targets(model: Any) -> np.ndarray:
    """Return the training targets, (n,) or (n, p), in the order of `training_inputs`.

    If a trend is the mean and the rows are on a cluster, its values for queries are used, which have seen the
    rows: these targets are then not exact.
    """
    check_is_fitted(model)
    fitted = model.model_
    y = _given_targets(fitted)
    if y is None:
        y = fitted.user_targets(*_training_rows(model))
    return y[:, 0] if fitted.one_output else y


def _given_targets(model: FittedModel) -> np.ndarray | None:
    """The targets that the model keeps beside those of its experts, in the order of `training_inputs`."""
    if model.targets is None or model.labels is None:
        return None
    numbers = np.concatenate(list(model.experts.row_batches(2, 1 << 62)))
    shared = np.flatnonzero(model.labels[model.labels >= -1] == -1)
    return model.targets[np.concatenate([shared, numbers])]


def targets_by_number(model: Any) -> np.ndarray | None:
    """Return the training targets of a single output by row number, as `Explanation` numbers rows.

    Experts may hold residuals of a trend, or transformed targets; these are the given ones. None if rows that
    all experts share have lost their numbers.
    """
    experts = model.model_.experts
    if experts.shared is not None:
        return None
    targets = np.full(int(experts.numbers.max()) + 1, np.nan)
    targets[experts.numbers] = training_targets(model)
    return targets


def training_row_numbers(model: Any) -> np.ndarray:
    """Return the number of each training row, (n,), in the order of `training_inputs`.

    Rows are numbered as in the file that `gpexperts fit` read, otherwise from 1. Rows that all experts share
    have lost their numbers; then all rows are counted as they are stored.
    """
    check_is_fitted(model)
    fitted = model.model_
    numbers = getattr(fitted.experts, "numbers", None)
    if numbers is None or fitted.experts.shared is not None:
        return np.arange(1, n_training_rows(model) + 1)
    given = fitted.row_numbers  # without rows that were held out, or that have no weight
    return file_row_numbers(model, np.asarray(numbers) if given is None else given[numbers])


def file_row_numbers(model: Any, rows: np.ndarray) -> np.ndarray:
    """Return the numbers in the file of training rows that are counted from 0; from 1 without a file."""
    table = getattr(model, "table_", None)
    return rows + 1 if table is None else np.asarray(table.row_numbers(rows))


def input_ranges(model: Any) -> np.ndarray:
    """Return the smallest and the largest training value of each encoded input, (d, 2)."""
    X, _ = _training_rows(model)
    return np.asarray(model.model_.user_inputs(np.stack([X.min(axis=0), X.max(axis=0)]))).T


def _training_rows(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, d) and targets (n, p) of all experts, in kernel units."""
    check_is_fitted(model)
    experts = model.model_.experts
    X, y, _ = experts.take(np.arange(experts.sizes.sum()))
    if experts.shared is None:
        return X, y
    return np.concatenate([experts.shared.X, X]), np.concatenate([experts.shared.y, y])


# ----------------------------------------------------------------------------------------- experts


def expert_positions(model: Any) -> np.ndarray:
    """Return a position in the plane for each expert, (M, 2): its centroid, projected.

    Each input is divided by its length scale first, so that irrelevant inputs do not stretch the map.
    The plane is that of the two directions in which the centroids vary most.
    """
    check_is_fitted(model)
    fitted = model.model_
    Z = fitted.centroids / fitted.covariance.metric(np.ones(fitted.experts.n_features))
    centre, axes = principal_axes(Z)
    return np.asarray((Z - centre) @ axes)


def principal_axes(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the centre (d,) and the first two principal axes (d, 2) of the rows of Z (n, d).

    With one input the second axis is zero. The sign of an axis is fixed, so that the same data give the
    same picture.
    """
    centre = Z.mean(axis=0)
    _, _, rows = np.linalg.svd(Z - centre, full_matrices=False)
    axes = np.zeros((Z.shape[1], 2))
    for k, row in enumerate(rows[:2]):
        axes[:, k] = row * np.sign(row[np.argmax(np.abs(row))] or 1.0)
    return centre, axes


def selection_counts(index: np.ndarray, n_experts: int) -> np.ndarray:
    """Return the number of queries that select each expert, (M,).

    Parameters
    ----------
    index : ndarray of int, shape (n, K)
        As returned by `select`; −1 pads.
    n_experts : int
    """
    return np.bincount(index[index >= 0], minlength=n_experts)


def expert_graph(model: Any) -> ExpertGraph:
    """Return the graph of the model's "ggm" selection, or of a new one if its selection is another."""
    check_is_fitted(model)
    predictor = model.predictor_
    selector = predictor.selector
    if not isinstance(selector, GGMSelector):
        selector = GGMSelector().fit(experts_view(predictor.model, predictor.settings))
    n_selected = selector.default_n_selected(model.n_experts_)
    # The ranking is the same for all queries.
    selected = selector.select(np.zeros((1, model.model_.experts.n_features)), n_selected)[0]
    return ExpertGraph(selector.precision_, selected)


# ------------------------------------------------------------------------------------- predictions


def calibration_curve(
    y: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    width: Width | None = None,
    z: np.ndarray | None = None,
    z_std: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the empirical coverage of central intervals at the levels 0.01 to 0.99.

    Parameters
    ----------
    y, mean, std : array-like of shape (n,)
    width : callable, optional
        Level and std ↦ half width of the intervals, in units of std, such as an estimator's `interval_width`;
        the Gaussian one by default.
    z, z_std : ndarray of shape (n,), optional
        Standardised residuals and the std on which their width depends, where the target is transformed.

    Returns
    -------
    levels, shares : ndarray of shape (k,)
        Without the levels for which too few rows were held out (conformal intervals).
    """
    levels = (np.arange(1, 100) / 100).tolist()
    shares = {level: share_inside(y, mean, std, level, width, z, z_std) for level in levels}
    known = {level: share for level, share in shares.items() if share is not None}
    return np.array(list(known)), np.array(list(known.values()))


def scored(model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """Return what `metrics.score` needs beside mean and std, for inputs (n, d) as `training_inputs` has them.

    Nothing where the target is not transformed. Otherwise `z` and `z_std`, standardised residuals and std of
    the transformed target, and `log_density`, of the target itself.
    """
    check_is_fitted(model)
    terms: dict[str, np.ndarray] = model.predictor_.score_terms(np.asarray(X, dtype=float), y)
    return terms
