"""GRBCM: all experts share a communication set, whose GP takes the place of the prior."""

from __future__ import annotations

import numpy as np

from gpexperts.aggregation.base import Aggregator
from gpexperts.experts.moments import ExpertMoments, Prediction

__all__ = ["GRBCM"]


class GRBCM(Aggregator):
    """Generalised robust Bayesian committee machine (Liu et al., 2018).

    A random communication set D_c is taken out of the data. Expert +i is the GP on D_c ∪ D_i, and

        1/v  = 1/v_c + Σ_i β_i (1/v_{+i} − 1/v_c)
        mean = v (Σ_i β_i μ_{+i}/v_{+i} − (Σ_i β_i − 1) μ_c/v_c)

    with β_i = ½(log v_c − log v_{+i}), except for one expert with β = 1. In Liu et al. this is a fixed
    first expert. Here it is the selected expert with the smallest v_{+i}, so that the order of the experts
    does not matter.

    Parameters
    ----------
    communication_size : int or None
        Rows of D_c; None means n / (M + 1), the size of a part.
    """

    needs_communication = True

    def __init__(self, communication_size: int | None = None) -> None:
        self.communication_size = communication_size

    def combine(self, moments: ExpertMoments) -> Prediction:
        v_c, mean_c = moments.communication_var, moments.communication_mean
        assert v_c is not None
        assert mean_c is not None
        # Expert +i is fitted on D_c and more rows, so v_{+i} ≤ v_c up to rounding.
        v = np.where(moments.selected, np.minimum(moments.var, v_c[:, None]), v_c[:, None])
        beta = 0.5 * (np.log(v_c)[:, None] - np.log(v))
        beta[np.arange(len(v)), np.argmin(np.where(moments.selected, v, np.inf), axis=1)] = 1.0
        var = 1.0 / (1.0 / v_c + (beta * (1.0 / v - 1.0 / v_c[:, None])).sum(axis=1))
        weight = var[:, None] * beta / v
        communication_weight = -var * (beta.sum(axis=1) - 1.0) / v_c
        mean = moments.weighted_mean(weight) + communication_weight[:, None] * mean_c
        return Prediction(mean, var, weight, communication_weight)
