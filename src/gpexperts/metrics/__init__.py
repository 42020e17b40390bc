"""Scores of predictive distributions, and scorers for scikit-learn's model selection.

`scores` are functions of targets and predictions; `scorers` take a fitted estimator, inputs and targets.
"""

from gpexperts.metrics import scorers
from gpexperts.metrics.scores import (
    LEVELS,
    Scores,
    Width,
    checked_level,
    coverage,
    crps,
    gaussian_log_density,
    gaussian_width,
    interval_score,
    msll,
    nlpd,
    score,
    share_inside,
    smse,
    student_width,
)

__all__ = [
    "LEVELS",
    "Scores",
    "Width",
    "checked_level",
    "coverage",
    "crps",
    "gaussian_log_density",
    "gaussian_width",
    "interval_score",
    "msll",
    "nlpd",
    "score",
    "scorers",
    "share_inside",
    "smse",
    "student_width",
]
