"""Calibrates a predictor: scores of rows that it has not seen, and the widths of intervals from these."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpexperts.calibration import FEW_ROWS, Calibration, Widths
from gpexperts.choices import Choice
from gpexperts.engines import Engine
from gpexperts.formula import Formula
from gpexperts.leave_one_out import Batches, check_leave_one_out, left_out, predicted
from gpexperts.metrics import gaussian_width
from gpexperts.model import FittedModel
from gpexperts.row_noise import given_weights, weights
from gpexperts.settings import Settings

__all__ = ["calibration_of", "interval_widths"]

JACKKNIFE_ROWS = 10_000
"""Training rows, at most, that ``calibrate="jackknife"`` leaves out one by one."""


def calibration_of(
    model: FittedModel, settings: Settings, formula: Formula, batches: Batches, engine: Engine
) -> tuple[Calibration, Choice]:
    """Score the rows that `calibrate` asks for, with what to report about them."""
    if model.held_out is None:
        calibration = _jackknife(model, settings, formula, engine)
        n = len(calibration.scores)
        evidence: dict[str, Any] = {"rows_left_out": n}
        reason = f"{n} training rows, each predicted without it"
    else:
        # Conformal intervals cover all targets, outliers included; std is that of an ordinary observation.
        count = given_weights if settings["calibrate"] == "conformal" else weights
        held = predicted(model.held_out, formula, batches)
        calibration = Calibration.of(np.abs(held.z), np.sqrt(held.var), count(model.held_out.noise))
        n, scale = len(calibration.scores), model.shaped(calibration.variance_scale)
        evidence = {"rows_held_out": n, "variance_scale": np.asarray(scale).tolist()}
        reason = f"{n} held-out rows; their mean squared score is {np.round(scale, 3)}"
    return calibration, Choice(settings["calibrate"], reason, evidence)


def _jackknife(model: FittedModel, settings: Settings, formula: Formula, engine: Engine) -> Calibration:
    experts = check_leave_one_out(model, "calibrate='jackknife'")
    rng = np.random.RandomState(model.seeds.tuning)
    rows = np.sort(rng.permutation(len(experts.X))[:JACKKNIFE_ROWS])
    batches = list(left_out(model, formula, rows, settings.work_budget, engine))
    scores, var = (np.concatenate(part) for part in zip(*((b.z, b.var) for b in batches), strict=True))
    return Calibration.of(np.abs(scores), np.sqrt(var), weights(experts.noise[rows]))


def interval_widths(
    level: float,
    model: FittedModel,
    settings: Settings,
    calibration: Calibration | None,
    residuals: Calibration | None,
) -> Widths:
    """Half the width of intervals in units of std, as a function of std in the units of the experts.

    They are quantiles of the standardised residuals of held-out rows, or with ``calibrate="jackknife"`` of
    rows left out one by one. Without such rows they are those of Student's t; with ``calibrate="scale"`` or
    given hyperparameters, that of a Gaussian.

    Parameters
    ----------
    level : float
        The probability, strictly between 0 and 1.
    model : FittedModel
    settings : Settings
    calibration : Calibration or None
        Scores of the rows that `calibrate` holds out or leaves out.
    residuals : Calibration or None
        Scores of the rows that were held out to choose the experts.
    """
    p = model.n_outputs
    if settings["calibrate"] == "scale":
        return Widths.constant(gaussian_width(level), p)
    if settings["calibrate"] == "jackknife" and calibration is not None:
        return calibration.widths(level)
    if calibration is not None:
        # Where nothing was chosen by held-out rows, no correction has made std depend on the noise.
        widths = Widths.constant(1.0, p) if residuals is None else residuals.widths(level).or_one
        return widths.times(calibration.quantile(level, widths))
    if residuals is not None:
        return residuals.widths(level)
    if settings["optimizer"] is None:
        return Widths.constant(gaussian_width(level), p)
    n = int(model.experts.offsets[-1])
    few = model.experts.take(np.arange(n))[1] if n < FEW_ROWS else None
    return Widths.of_rows(level, n, p, few)
