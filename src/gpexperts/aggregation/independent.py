"""Aggregators that treat the experts as conditionally independent: PoE, GPoE, BCM, RBCM.

All of them add precisions 1/v_i, weighted by β_i, and correct for the prior s² that every expert
used. Written as

    1/v = 1/a + Σ_i β_i (1/v_i − 1/b),    mean = v Σ_i β_i μ_i / v_i,

the precision is a sum of non-negative terms, so that no variance is negative or above the prior:
PoE and GPoE have 1/a = 1/b = 0; BCM and RBCM have a = b = s².
"""

from __future__ import annotations

import numpy as np

from gpexperts.aggregation.base import Aggregator
from gpexperts.experts.moments import ExpertMoments, Prediction

__all__ = ["BCM", "RBCM", "GPoE", "PoE"]


class PoE(Aggregator):
    """Product of experts (Hinton, 2002): precisions add up. Overconfident; v = s²/K far from the data."""

    keeps_single_mean = True

    def combine(self, moments: ExpertMoments) -> Prediction:
        return _product(moments, beta=moments.selected.astype(float))


class GPoE(Aggregator):
    """Generalised product of experts (Cao & Fleet, 2014) with uniform weights 1/K. Conservative."""

    keeps_single_mean = True

    def combine(self, moments: ExpertMoments) -> Prediction:
        selected = moments.selected
        return _product(moments, beta=selected / selected.sum(axis=1, keepdims=True))


class BCM(Aggregator):
    """Bayesian committee machine (Tresp, 2000): a product that counts the prior once."""

    keeps_single_mean = True

    def combine(self, moments: ExpertMoments) -> Prediction:
        return _committee(moments, beta=moments.selected.astype(float))


class RBCM(Aggregator):
    """Robust Bayesian committee machine (Deisenroth & Ng, 2015): β_i = ½(log s² − log v_i)."""

    def combine(self, moments: ExpertMoments) -> Prediction:
        entropy_drop = 0.5 * (np.log(moments.prior_var)[:, None] - np.log(moments.var))
        return _committee(moments, beta=np.where(moments.selected, entropy_drop, 0.0))


def _product(moments: ExpertMoments, beta: np.ndarray) -> Prediction:
    precision = beta / moments.var
    var = 1.0 / precision.sum(axis=1)
    weight = var[:, None] * precision
    return Prediction(moments.weighted_mean(weight), var, weight)


def _committee(moments: ExpertMoments, beta: np.ndarray) -> Prediction:
    prior = moments.prior_var
    excess = beta * (1.0 / moments.var - 1.0 / prior[:, None])
    var = 1.0 / (1.0 / prior + excess.sum(axis=1))
    weight = var[:, None] * beta / moments.var
    return Prediction(moments.weighted_mean(weight), var, weight)
