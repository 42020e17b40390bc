"""Experts: local GPs that share one set of hyperparameters.

`kernels` reads scikit-learn kernels, `training` finds θ, `local` keeps the fitted experts and answers
queries; `linalg` is the one place that factorises, `lapack` what it stands on.
"""

from gpexperts.experts.kernels import Covariance, covariance_of
from gpexperts.experts.local import Answer, Experts
from gpexperts.experts.training import Block, TraceRow, maximise_likelihood

__all__ = [
    "Answer",
    "Block",
    "Covariance",
    "Experts",
    "TraceRow",
    "covariance_of",
    "maximise_likelihood",
]
