"""Student-t noise: rows are weighted by their leave-one-out residuals.

The first guess of outliers (`outliers`) comes from neighbours. If the residuals of trained experts change it
much, the experts are trained again.
"""

from __future__ import annotations

import numpy as np

from gpexperts.columns import InputLayout
from gpexperts.experts.store import ExpertStore
from gpexperts.fit_experts import FittedExperts, fit_experts
from gpexperts.fit_kernel import Streams, fit_kernel
from gpexperts.outliers import DEGREES
from gpexperts.partition.assign import Plan
from gpexperts.progress import reporters
from gpexperts.row_noise import precisions, with_precision
from gpexperts.rows.arrays import ArrayRows
from gpexperts.rows.base import RowSource
from gpexperts.settings import Settings

__all__ = ["with_student_noise"]

ROUNDS = 3
"""How often rows are weighted by their leave-one-out residuals, for Student-t noise."""
SETTLED = 0.002
"""Share of rows that became or ceased to be outliers, up to which the model is not trained again."""
OUTLIER = 0.5
"""Precision below which a row is an outlier."""


def with_student_noise(
    fitted: FittedExperts,
    rows: RowSource,
    plan: Plan,
    settings: Settings,
    streams: Streams,
    layout: InputLayout,
) -> FittedExperts:
    """Weight rows by their leave-one-out residuals; train once more if that changes the guess much.

    `streams` are those of the first training, as they were before it: the blocks are the same, so that only
    the weights make a difference. Rows of a cluster are not trained on again.
    """
    reporters().start("weighting rows by their residuals")
    fitted = fitted._replace(experts=fitted.experts.robust(DEGREES, ROUNDS))
    if settings["optimizer"] is None or not isinstance(rows, ArrayRows):
        return fitted
    noise = _noise_by_number(fitted.experts, rows.n)
    before, after = precisions(rows.noise)[0], precisions(noise)[0]
    change = float(np.mean(np.abs(before - after) > OUTLIER))
    reporters().message(1, f"noise: {int((after < OUTLIER).sum())} outliers of {rows.n} rows")
    if change < SETTLED:
        return fitted
    rows = ArrayRows(rows.X, rows.y, with_precision(rows.noise, *precisions(noise)))
    fitted = fit_experts(fit_kernel(rows, settings, streams, layout, student=True), plan, settings, streams)
    return fitted._replace(experts=fitted.experts.robust(DEGREES, ROUNDS))


def _noise_by_number(experts: ExpertStore, n: int) -> np.ndarray:
    """The table of noise (n, 4) in the order of the rows."""
    numbers, noise = (np.concatenate(list(experts.row_batches(k, 1 << 62))) for k in (2, 3))
    table = np.empty((n, noise.shape[1]))
    table[numbers] = noise
    if experts.shared is not None:
        table[np.setdiff1d(np.arange(n), numbers)] = experts.shared.noise
    return table
