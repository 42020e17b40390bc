"""NPAE: the best linear combination of the experts' means, given their covariance."""

from __future__ import annotations

import numpy as np

from gpexperts.aggregation.base import Aggregator
from gpexperts.experts.moments import VARIANCE_FLOOR, ExpertMoments, Prediction
from gpexperts.validation import is_auto, is_number

__all__ = ["NPAE"]

_UNINFORMATIVE = 1e-100
"""An expert that explains less than this share of the prior variance is left out: its weight is near 0/0."""


class NPAE(Aggregator):
    """Nested pointwise aggregation of experts (Rullière et al., 2018).

    Under the model, the experts' means μ and the function value f(x*) are jointly Gaussian with
    Cov(μ_i, f) = r_i and Cov(μ_i, μ_j) = R_ij, where R_ii = r_i because the observations are noisy.
    The best linear predictor of f from μ is

        mean = rᵀ R⁻¹ μ,    v = s² − rᵀ R⁻¹ r.

    Parameters
    ----------
    nugget : float
        ε in R + ε s² I. It models a little independent noise in each expert's mean, so that an expert
        which explains almost nothing gets almost no weight. With ε = 0, the formula above, such experts have
        extreme weights as soon as the model is slightly wrong. Values from 1e-8 to 1e-4 give the same
        predictions.
    disagreement : float, None or "auto"
        ν, the degrees of freedom of a correction for disagreement beyond χ². Given f, the means have
        covariance R − r rᵀ/s², so that Q = min_c (μ − c r)ᵀ R⁻¹ (μ − c r) is χ² with K − 1 degrees of
        freedom under the model. The variance of an observation is multiplied by (ν + Q) / (ν + K − 1),
        whose mean is 1 under the model. None applies no such correction. With ``"auto"``, this parameter and
        the next three are chosen by held-out log density if there is an own expert or
        ``n_selected="auto"``; otherwise it means None.
    scale : float
        Constant factor of the variance of an observation.
    local_noise : float
        Exponent, from 0 to 1, of the local variance ratio. The ratio compares the squared leave-one-out
        residuals of an expert's rows near the query with their predicted variance; it is averaged over the
        experts with weights |w|. The variance of an observation is multiplied by this power of it. It is
        above 1 where the noise is larger or the function is rougher than elsewhere.
    floor : float
        The product of the corrections is at least this.

    Notes
    -----
    The product of the corrections is raised to the power (s² − v)/s², the share of the prior variance that
    the experts explain. So far from the data there is no correction. The latent variance is never corrected.
    """

    needs_covariance = True
    keeps_single_mean = True
    best_linear = True

    def __init__(
        self,
        nugget: float = 1e-8,
        disagreement: float | str | None = "auto",
        scale: float = 1.0,
        local_noise: float = 0.0,
        floor: float = 0.0,
    ) -> None:
        self.nugget = nugget
        self.disagreement = disagreement
        self.scale = scale
        self.local_noise = local_noise
        self.floor = floor

    @property
    def needs_local_noise(self) -> bool:
        # `combine` refuses what is not a number.
        return self.local_noise != 0 or self._corrects_disagreement

    @property
    def _corrects_disagreement(self) -> bool:
        return not (self.disagreement is None or is_auto(self.disagreement))

    def check_parameters(self) -> None:
        """Raise ValueError if a parameter is out of range."""
        if not (is_number(self.nugget) and 0.0 <= float(self.nugget) < 1.0):
            raise ValueError(f"nugget must be a number in [0, 1), got {self.nugget!r}.")
        nu = self.disagreement
        if self._corrects_disagreement and not (is_number(nu) and 0.0 < float(nu) < np.inf):  # type: ignore[arg-type]
            raise ValueError(f"disagreement must be None, 'auto' or a positive number, got {nu!r}.")
        if not (is_number(self.scale) and 0.0 < float(self.scale) < np.inf):
            raise ValueError(f"scale must be a positive number, got {self.scale!r}.")
        if not (is_number(self.local_noise) and 0.0 <= float(self.local_noise) <= 1.0):
            raise ValueError(f"local_noise must be a number from 0 to 1, got {self.local_noise!r}.")
        if not (is_number(self.floor) and 0.0 <= float(self.floor) < np.inf):
            raise ValueError(f"floor must be a number of at least 0, got {self.floor!r}.")

    def combine(self, moments: ExpertMoments) -> Prediction:
        self.check_parameters()
        assert moments.covariance is not None
        prior = moments.prior_var[:, None]
        # Not s² − v_i, which has too few digits where an expert explains little.
        explained = moments.explained
        if explained is None:
            explained = np.einsum("nkk->nk", moments.covariance)
        explained = np.where(moments.selected, explained, 0.0)
        informative = explained > _UNINFORMATIVE * prior
        r = np.where(informative, explained, 0.0)
        system = self._system(moments, r, informative)
        weight, repaired = self._weights(system, r, moments.prior_var)
        # Conservative: the variance achieved by these weights is smaller by ε s² |w|².
        left = 1.0 - np.einsum("nk,nk->n", weight, r) / moments.prior_var
        var = moments.prior_var * np.clip(left, VARIANCE_FLOOR, 1.0)
        mean = moments.weighted_mean(weight)
        prediction = Prediction(mean, var, weight, repaired=repaired)
        if self.scale == 1.0 and not self._corrects_disagreement and not self.local_noise:
            return prediction
        correction = np.full_like(mean, self.scale)
        if self._corrects_disagreement:
            correction *= self._disagreement(system, moments, informative, mean, var)
        if self.local_noise:
            correction *= _local_variance_ratio(moments, weight) ** self.local_noise
        return prediction.corrected(np.maximum(correction, self.floor), moments.prior_var)

    def _system(self, moments: ExpertMoments, r: np.ndarray, informative: np.ndarray) -> np.ndarray:
        """R + ε s² I for every query, (n, K, K)."""
        R, prior = moments.covariance, moments.prior_var
        assert R is not None
        diagonal = np.arange(r.shape[1])
        system = np.where(informative[:, :, None] & informative[:, None, :], R, 0.0)
        # A single informative expert needs no nugget, and its mean is kept. The rows of uninformative experts
        # are those of s² I; with r = 0 their weight is 0.
        nugget = np.where(informative.sum(axis=1) > 1, self.nugget * prior, 0.0)
        variance = np.einsum("nkk->nk", R)
        system[:, diagonal, diagonal] = np.where(informative, variance + nugget[:, None], prior[:, None])
        return system

    def _weights(self, system: np.ndarray, r: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, int]:
        """Solve (R + ε s² I) w = r for every query, (n, K), and count the solutions that were repaired."""
        K = r.shape[1]
        weight = _solve(system, r[:, :, None])[:, :, 0]
        explained = np.einsum("nk,nk->n", weight, r)
        # The best combination explains at least as much as the best expert, and at most the prior variance.
        # A solution that does not is wrong by rounding.
        alone = r * (r / np.maximum(np.einsum("nkk->nk", system), np.finfo(float).tiny))
        best = alone.max(axis=1, initial=0.0)
        wrong = ~((explained >= best * (1.0 - 1e-7)) & (explained <= prior * (1.0 + 1e-10)))
        if wrong.any():
            solved = _solve_by_eigenvalues(system[wrong], r[wrong])
            # If that also explains more than the prior variance, only the best expert is used.
            still_wrong = np.einsum("nk,nk->n", solved, r[wrong]) > prior[wrong] * (1.0 + 1e-10)
            solved[still_wrong] = np.eye(K)[np.argmax(r[wrong][still_wrong], axis=1)]
            weight[wrong] = solved
        return weight, int(wrong.sum())

    def _disagreement(
        self,
        system: np.ndarray,
        moments: ExpertMoments,
        informative: np.ndarray,
        mean: np.ndarray,
        var: np.ndarray,
    ) -> np.ndarray:
        """(ν + Q) / (ν + K − 1) for every query and output, with Q = μᵀR⁻¹μ − mean²/(s² − v)."""
        mu = np.where(informative[:, :, None], moments.mean, 0.0)
        explained = np.maximum(moments.prior_var - var, np.finfo(float).tiny)
        total = np.einsum("nkp,nkp->np", mu, _solve(system, mu))
        Q = np.maximum(total - mean**2 / explained[:, None], 0.0)
        freedom = np.maximum(informative.sum(axis=1) - 1, 0)[:, None]
        if moments.own_disagreement is not None and moments.own_freedom is not None:
            Q, freedom = Q + moments.own_disagreement, freedom + moments.own_freedom[:, None]
        nu = float(self.disagreement)  # type: ignore[arg-type]
        # Q is not defined for a singular system, and 0 for a single expert: no correction.
        return np.where((freedom > 0) & np.isfinite(Q), (nu + Q) / (nu + freedom), 1.0)


def _local_variance_ratio(moments: ExpertMoments, weight: np.ndarray) -> np.ndarray:
    """Local variance ratios of the experts, averaged with weights |w|, (n, p)."""
    assert moments.local_noise is not None
    share = np.abs(weight)
    total = share.sum(axis=1, keepdims=True)
    share = np.divide(share, total, out=np.zeros_like(share), where=total > 0)
    return np.where(total > 0, np.einsum("nk,nkp->np", share, moments.local_noise), 1.0)


def _solve(system: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve system · x = b (n, K, j) for every query; NaN for those that are singular, and only for those."""
    if system.shape[1] == 1:
        return np.divide(b, system, out=np.full_like(b, np.nan), where=system != 0.0)
    try:
        return np.linalg.solve(system, b)
    except np.linalg.LinAlgError:
        if len(b) == 1:
            return np.full_like(b, np.nan)
        return np.concatenate([_solve(system[q : q + 1], b[q : q + 1]) for q in range(len(b))])


def _solve_by_eigenvalues(system: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Solve on the scale of correlations, without directions whose eigenvalue is zero up to rounding."""
    scale = 1.0 / np.sqrt(np.einsum("nkk->nk", system))
    correlation = system * scale[:, :, None] * scale[:, None, :]
    # A system that has overflowed cannot be repaired: its weights and its prediction are NaN.
    overflowed = ~np.isfinite(correlation).all(axis=(1, 2))
    correlation[overflowed] = np.eye(system.shape[1])
    values, vectors = np.linalg.eigh(correlation)
    floor = values[:, -1:] * 1e-12 * system.shape[1]
    inverse = np.where(values > floor, 1.0 / np.maximum(values, floor), 0.0)
    along = np.einsum("nkj,nk->nj", vectors, r * scale)
    weight = scale * np.einsum("nkj,nj->nk", vectors, inverse * along)
    weight[overflowed] = np.nan
    return weight
