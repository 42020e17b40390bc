"""Is the data sound? What is conspicuous in the training rows and in the test rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpexperts import inspection

__all__ = ["findings"]

_FAR = 8.0
"""A target is an outlier beyond this many robust standard deviations from the median."""
_MAX_COLUMNS = 8
_MAX_ROWS = 10_000
"""Rows in which gaps are counted."""


def findings(model: Any, X: np.ndarray, outside: list[list[Any]], n_outside: int) -> list[str]:
    """Return one sentence per finding.

    Parameters
    ----------
    model : DistributedGPRegressor
    X : ndarray of shape (n, d)
        Its training inputs, encoded.
    outside : list
        [column, number of test rows outside the range of the training rows].
    n_outside : int
        Test rows that are outside in any column.
    """
    return [
        sentence
        for sentence in (
            *_left_out(model),
            _constants(model, X),
            _gaps(model, X),
            _repeated(X),
            _outliers(model),
            _outside(outside, n_outside),
        )
        if sentence
    ]


def _left_out(model: Any) -> list[str]:
    table = getattr(model, "table_", None)
    reasons = {} if table is None else table.left_out
    return [f"{name} is not used ({reason})." for name, reason in list(reasons.items())[:_MAX_COLUMNS]]


def _constants(model: Any, X: np.ndarray) -> str:
    spread = np.ptp(X, axis=0)
    names = [c.name for c in inspection.model_columns(model) if not spread[c.inputs].any()]
    return f"{_joined(names)}: constant in the training rows, without effect." if names else ""


def _gaps(model: Any, X: np.ndarray) -> str:
    rows = X[np.linspace(0, len(X) - 1, min(len(X), _MAX_ROWS)).astype(int)]
    shares = {
        c.name: np.mean([value is None for value in c.column.decode(rows[:, c.inputs])])
        for c in inspection.model_columns(model)
        if c.column.gaps
    }
    names = [f"{name} ({100 * share:.1f} %)" for name, share in shares.items()]
    return f"Training rows without a value: {_joined(names)}." if names else ""


def _repeated(X: np.ndarray) -> str:
    n = len(X) - len(np.unique(X, axis=0))
    return f"{n:,} training rows repeat the inputs of another." if n else ""


def _outliers(model: Any) -> str:
    y = np.asarray(inspection.training_targets(model))
    distance = np.abs(y - np.median(y))
    scale = 1.4826 * np.median(distance)
    n = int(np.sum(distance > _FAR * scale)) if scale > 0 else 0
    if not n:
        return ""
    targets = "1 training target is" if n == 1 else f"{n:,} training targets are"
    far = f"{targets} more than {_FAR:g} robust standard deviations from the median."
    chosen = model.choices_.get("noise")
    if model.noise == "student" or (chosen is not None and chosen.value == "student"):
        return f"{far} With Student-t noise, rows that differ much from their neighbours have little weight."
    return f'{far} If they are wrong, use noise="student".'


def _outside(outside: list[list[Any]], n: int) -> str:
    columns = ", ".join(f"{name}: {count:,}" for name, count in outside)
    rows = "1 test row is" if n == 1 else f"{n:,} test rows are"
    return f"{rows} outside the range of the training rows ({columns})." if n else ""


def _joined(names: list[str]) -> str:
    more = f" and {len(names) - _MAX_COLUMNS} more" if len(names) > _MAX_COLUMNS else ""
    return ", ".join(names[:_MAX_COLUMNS]) + more
