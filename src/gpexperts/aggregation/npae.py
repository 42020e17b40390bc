"""NPAE: the best linear combination of the experts, given how they correlate."""

from __future__ import annotations

import numpy as np

from gpexperts.aggregation.base import Aggregator
from gpexperts.moments import ExpertMoments, Prediction, weighted

__all__ = ["NPAE"]

_SILENT = 1e-15
"""An expert that explains less than this share of the prior variance has nothing to say."""


class NPAE(Aggregator):
    """Nested pointwise aggregation of experts (Rullière et al., 2018), the dependent rule.

    Before the targets are seen, the experts' means μ and the function f(x*) are jointly Gaussian with
    Cov(μ_i, f) = r_i and Cov(μ_i, μ_j) = R_ij, where R_ii = r_i because the observations carry noise.
    The best linear predictor of f from μ is

        mean = rᵀ R⁻¹ μ,    v = s² − rᵀ R⁻¹ r.

    Parameters
    ----------
    nugget : float
        ε in R + ε s² I. Each expert's word is taken to carry a little independent noise, so that one
        that explains next to nothing has next to no say: in exact arithmetic such experts are
        harmless, but as soon as the model is a little wrong their weights are wild. Values from 1e-8 to
        1e-4 give the same predictions; 0 gives the formula above to the letter.
    """

    needs_covariance = True

    def __init__(self, nugget: float = 1e-8) -> None:
        self.nugget = nugget

    def combine(self, moments: ExpertMoments) -> Prediction:
        if not 0.0 <= self.nugget < 1.0:
            raise ValueError(f"nugget must be a number in [0, 1), got {self.nugget!r}.")
        prior = moments.prior_var[:, None]
        explained = np.where(moments.asked, prior - moments.var, 0.0)
        speaks = explained > _SILENT * prior
        r = np.where(speaks, explained, 0.0)
        weight, repaired = self._weights(moments.covariance, r, speaks, moments.prior_var)
        # Conservative: the variance really achieved by these weights is smaller by ε s² |w|².
        var = moments.prior_var - np.einsum("nk,nk->n", weight, r)
        return Prediction(weighted(moments, weight), var, weight, repaired=repaired)

    def _weights(
        self, R: np.ndarray | None, r: np.ndarray, speaks: np.ndarray, prior: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """Solve (R + ε s² I) w = r for every query; mend the systems that rounding has spoilt."""
        assert R is not None
        K = r.shape[1]
        if K == 1:  # a lone expert is taken at its word
            return speaks.astype(float), 0
        diagonal = np.arange(K)
        system = np.where(speaks[:, :, None] & speaks[:, None, :], R, 0.0)
        # A silent expert keeps a row of the identity, and with r = 0 the weight 0. Where one speaks
        # alone there is nothing to regularise.
        several = speaks.sum(axis=1) > 1
        nugget = np.where(several, self.nugget * prior, 0.0)[:, None]
        system[:, diagonal, diagonal] = np.where(speaks, r + nugget, prior[:, None])
        try:
            weight = np.linalg.solve(system, r[:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:
            weight = np.full_like(r, np.nan)
        explained = np.einsum("nk,nk->n", weight, r)
        # The best combination explains at least what the best expert does, and never more than the prior.
        best = r.max(axis=1, initial=0.0)
        best = best * best / np.maximum(best + nugget[:, 0], np.finfo(float).tiny)
        wrong = ~((explained >= best * (1.0 - 1e-7)) & (explained <= prior * (1.0 + 1e-10)))
        if wrong.any():
            weight[wrong] = _solve_by_eigenvalues(system[wrong], r[wrong])
        return weight, int(wrong.sum())


def _solve_by_eigenvalues(system: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Solve on the scale of correlations, leaving out directions that hold nothing but rounding."""
    scale = 1.0 / np.sqrt(np.einsum("nkk->nk", system))
    values, vectors = np.linalg.eigh(system * scale[:, :, None] * scale[:, None, :])
    floor = values[:, -1:] * 1e-12 * system.shape[1]
    inverse = np.where(values > floor, 1.0 / np.maximum(values, floor), 0.0)
    along = np.einsum("nkj,nk->nj", vectors, r * scale)
    return scale * np.einsum("nkj,nj->nk", vectors, inverse * along)
