"""The units of the experts, chosen from a summary of the rows."""

from __future__ import annotations

import warnings

import numpy as np

from gpexperts.exceptions import ConstantTargetWarning
from gpexperts.rows.base import Units
from gpexperts.scaling import ColumnSummary, Standardizer, check_magnitudes

__all__ = ["choose_units"]


def choose_units(
    X: ColumnSummary,
    y: ColumnSummary,
    *,
    standardize: bool,
    kernel_is_object: bool,
    learns_noise: bool,
    standardized: np.ndarray | None = None,
    warns: bool = True,
) -> tuple[Units, np.ndarray]:
    """Choose the units of the experts.

    Parameters
    ----------
    X, y : ColumnSummary
        In the user's units.
    standardize : bool
        Whether columns are scaled to zero mean and unit variance.
    kernel_is_object : bool
        Whether the kernel's variances are in units of y²: then y is centred only.
    learns_noise : bool
        Whether weights are divided by their mean, so that the learned noise is that of an average row. The
        likelihood of weights that count copies grows without bound as the noise vanishes: equal rows have
        no noise.
    standardized : ndarray of bool, shape (d,), optional
        The inputs that are scaled; the others encode categories, whose distances are meant as they are.
    warns : bool
        Whether to warn of a constant target.

    Returns
    -------
    units : Units
    varies : ndarray of bool, shape (p,)
        Which outputs have more than one value.
    """
    x_scale, y_scale = Standardizer.of(X), Standardizer.of(y)
    if standardized is not None:
        x_scale = Standardizer(
            np.where(standardized, x_scale.shift, 0.0), np.where(standardized, x_scale.scale, 1.0)
        )
    if not standardize:
        check_magnitudes(X, y)
        x_scale, y_scale = Standardizer.identity(len(X.mean)), Standardizer.identity(len(y.mean))
    elif kernel_is_object:
        y_scale = Standardizer(y_scale.shift, np.ones(len(y.mean)))  # variances in units of y²
    constant = y.constant
    if constant.any() and warns:
        which = "" if len(constant) == 1 else f" (output {', '.join(map(str, np.flatnonzero(constant)))})"
        warnings.warn(
            f"All training targets are equal{which}; the model predicts that value everywhere, "
            "with a standard deviation of about rounding.",
            ConstantTargetWarning,
            stacklevel=5,
        )
        size = np.where(y.low == 0, 1e-12, np.abs(y.low))
        rounding = np.maximum(np.finfo(float).eps * size, np.finfo(float).tiny)
        y_scale = Standardizer(
            np.where(constant, y.low, y_scale.shift), np.where(constant, rounding, y_scale.scale)
        )
    weight = X.weight / X.n if learns_noise and X.weight is not None else 1.0
    return Units(x_scale, y_scale, weight), ~constant
