"""From `sample_weight` and `noise_std` to the table of noise of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpexperts.row_noise import noise_table, plain

__all__ = ["checked_noise"]


def checked_noise(
    sample_weight: Any, noise_std: Any, n: int, n_outputs: int, where: str = ""
) -> tuple[np.ndarray, np.ndarray | None]:
    """Check what is known of the noise of n rows.

    Parameters
    ----------
    sample_weight, noise_std : array-like of shape (n,), number, or None
    n, n_outputs : int
        Of the targets.
    where : str
        Added to the names in error messages.

    Returns
    -------
    noise : ndarray of shape (k, 2) or (k, 0)
        Table of the rows with a positive weight; see `row_noise`.
    kept : ndarray of int, shape (k,), or None
        Those rows; None for all.
    """
    if sample_weight is None and noise_std is None:
        return plain(n), None
    weight = _column(sample_weight, n, 1.0, "sample_weight", where)
    given = _column(noise_std, n, 0.0, "noise_std", where)
    if (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise ValueError(
            f"sample_weight{where} must not be negative, got {weight[row]:g} in row {row}. "
            "A weight of 0 leaves a row out."
        )
    if noise_std is not None:
        if n_outputs > 1:
            raise ValueError(
                f"noise_std is in the units of one target, but y has {n_outputs}. "
                "Fit one model per target, or use sample_weight."
            )
        if (given <= 0).any():
            row = int(np.argmax(given <= 0))
            raise ValueError(
                f"noise_std{where} must be positive, got {given[row]:g} in row {row}. It is the known "
                "standard deviation of the error of each target, beside the noise that is learned."
            )
    kept = np.flatnonzero(weight > 0)
    if len(kept) == n:
        return noise_table(weight, given), None
    return noise_table(weight[kept], given[kept]), kept


def _column(values: Any, n: int, default: float, name: str, where: str) -> np.ndarray:
    """Return one finite number per row."""
    if values is None:
        return np.full(n, default)
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}{where} must be one number per row: {error}.") from error
    if column.ndim == 0:
        column = np.full(n, float(column))
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError(f"{name}{where} must be 1D, one number per row, got shape {column.shape}.")
    if len(column) != n:
        raise ValueError(f"{name}{where}.shape == {column.shape}, expected ({n},): one number per row of X.")
    if not np.isfinite(column).all():
        row = int(np.argmax(~np.isfinite(column)))
        raise ValueError(f"{name}{where} must be finite, got {column[row]} in row {row}.")
    return column
