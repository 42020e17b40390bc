"""NPAE: the best linear combination of the experts, given how they correlate."""

from __future__ import annotations

import numpy as np

from gpexperts.aggregation.base import Aggregator
from gpexperts.experts.moments import VARIANCE_FLOOR, ExpertMoments, Prediction, weighted
from gpexperts.settings import is_auto, is_number

__all__ = ["NPAE"]

_SILENT = 1e-100
"""An expert that explains less than this share of the prior variance is close to 0/0, and is left out."""


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
    widen : float, None or "auto"
        Given f, the means covary by R − r rᵀ/s², so that Q = min_c (μ − c r)ᵀ R⁻¹ (μ − c r) is χ² with
        K − 1 degrees of freedom if the model is right. Where experts contradict each other by more
        than that, their word should not be taken at face value: the variance of an observation is
        corrected by (ν + Q) / (ν + K − 1), which is 1 on average under the model. The number is ν;
        None takes the model at its word; ``"auto"`` lets held-out rows choose this and the next two where
        the estimator consults them (``n_selected="auto"``), and is None otherwise.
    scale : float
        Corrects the variance of an observation everywhere.
    surprise : float
        How far to trust what the experts' own rows tell of the variance of an observation, from 0 to 1. Each
        expert predicts each of its rows from its others; how large its squared errors near the query are, as
        a multiple of what it expected, is averaged over the experts by their weights |w|, and this power of
        it is the correction. Noise that is not the same everywhere shows in it, and so does a function that
        is rougher here than there.

    Notes
    -----
    The product of the corrections is raised to the power (s² − v)/s², the share of the variance that
    the experts explain: far from the data, where they know nothing, the prior speaks as it is. The latent
    variance is never corrected.
    """

    needs_covariance = True
    trusts_a_lone_expert = True

    def __init__(
        self,
        nugget: float = 1e-8,
        widen: float | str | None = "auto",
        scale: float = 1.0,
        surprise: float = 0.0,
    ) -> None:
        self.nugget = nugget
        self.widen = widen
        self.scale = scale
        self.surprise = surprise

    @property
    def needs_surprise(self) -> bool:
        return self.surprise != 0  # what is no number is refused by `combine`

    @property
    def _widens(self) -> bool:
        return not (self.widen is None or is_auto(self.widen))

    def check_parameters(self) -> None:
        """Refuse what cannot be computed with."""
        if not (is_number(self.nugget) and 0.0 <= float(self.nugget) < 1.0):
            raise ValueError(f"nugget must be a number in [0, 1), got {self.nugget!r}.")
        if self._widens and not (is_number(self.widen) and 0.0 < float(self.widen) < np.inf):  # type: ignore[arg-type]
            raise ValueError(f"widen must be None, 'auto' or a positive number, got {self.widen!r}.")
        if not (is_number(self.scale) and 0.0 < float(self.scale) < np.inf):
            raise ValueError(f"scale must be a positive number, got {self.scale!r}.")
        if not (is_number(self.surprise) and 0.0 <= float(self.surprise) <= 1.0):
            raise ValueError(f"surprise must be a number from 0 to 1, got {self.surprise!r}.")

    def combine(self, moments: ExpertMoments) -> Prediction:
        self.check_parameters()
        assert moments.covariance is not None
        prior = moments.prior_var[:, None]
        # R's diagonal, not s² − v_i: the difference has lost the digits of an expert who explains little.
        explained = np.where(moments.asked, np.einsum("nkk->nk", moments.covariance), 0.0)
        speaks = explained > _SILENT * prior
        r = np.where(speaks, explained, 0.0)
        system = self._system(moments, r, speaks)
        weight, repaired = self._weights(system, r, moments.prior_var)
        # Conservative: the variance really achieved by these weights is smaller by ε s² |w|².
        left = 1.0 - np.einsum("nk,nk->n", weight, r) / moments.prior_var
        var = moments.prior_var * np.clip(left, VARIANCE_FLOOR, 1.0)
        mean = weighted(moments, weight)
        prediction = Prediction(mean, var, weight, repaired=repaired)
        if self.scale == 1.0 and not self._widens and not self.surprise:
            return prediction
        correction = np.full_like(mean, self.scale)
        if self._widens:
            correction *= self._widening(system, moments, speaks, mean, var)
        if self.surprise:
            correction *= _surprise(moments, weight) ** self.surprise
        return prediction.corrected(correction, moments.prior_var)

    def _system(self, moments: ExpertMoments, r: np.ndarray, speaks: np.ndarray) -> np.ndarray:
        """R + ε s² I for every query, (n, K, K)."""
        R, prior = moments.covariance, moments.prior_var
        assert R is not None
        diagonal = np.arange(r.shape[1])
        system = np.where(speaks[:, :, None] & speaks[:, None, :], R, 0.0)
        # Where one expert speaks alone it is taken at its word. A silent one keeps a row of the identity,
        # and with r = 0 the weight 0.
        nugget = np.where(speaks.sum(axis=1) > 1, self.nugget * prior, 0.0)
        system[:, diagonal, diagonal] = np.where(speaks, r + nugget[:, None], prior[:, None])
        return system

    def _weights(self, system: np.ndarray, r: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, int]:
        """Solve (R + ε s² I) w = r for every query; mend the systems that rounding has spoilt."""
        K = r.shape[1]
        weight = _solve(system, r[:, :, None])[:, :, 0]
        explained = np.einsum("nk,nk->n", weight, r)
        # The best combination explains at least what the best expert does, and never more than the prior.
        best = r.max(axis=1, initial=0.0)
        best = best * (best / np.maximum(best + self.nugget * prior, np.finfo(float).tiny))
        wrong = ~((explained >= best * (1.0 - 1e-7)) & (explained <= prior * (1.0 + 1e-10)))
        if wrong.any():
            mended = _solve_by_eigenvalues(system[wrong], r[wrong])
            # Where even that claims to know more than there is to know, the best expert's word is taken.
            hopeless = np.einsum("nk,nk->n", mended, r[wrong]) > prior[wrong] * (1.0 + 1e-10)
            mended[hopeless] = np.eye(K)[np.argmax(r[wrong][hopeless], axis=1)]
            weight[wrong] = mended
        return weight, int(wrong.sum())

    def _widening(
        self,
        system: np.ndarray,
        moments: ExpertMoments,
        speaks: np.ndarray,
        mean: np.ndarray,
        var: np.ndarray,
    ) -> np.ndarray:
        """(ν + Q) / (ν + K − 1) for every query and output, with Q = μᵀR⁻¹μ − mean²/(s² − v)."""
        said = np.where(speaks[:, :, None], moments.mean, 0.0)
        explained = np.maximum(moments.prior_var - var, np.finfo(float).tiny)
        total = np.einsum("nkp,nkp->np", said, _solve(system, said))
        Q = np.maximum(total - mean**2 / explained[:, None], 0.0)
        freedom = np.maximum(speaks.sum(axis=1) - 1, 0)[:, None]
        nu = float(self.widen)  # type: ignore[arg-type]
        # Experts whose system is singular cannot be said to contradict each other.
        return np.where((freedom > 0) & np.isfinite(Q), (nu + Q) / (nu + freedom), 1.0)


def _surprise(moments: ExpertMoments, weight: np.ndarray) -> np.ndarray:
    """What the experts' own rows tell, averaged by their weights, (n, p)."""
    assert moments.surprise is not None
    influence = np.abs(weight)
    total = influence.sum(axis=1, keepdims=True)
    influence = np.divide(influence, total, out=np.zeros_like(influence), where=total > 0)
    return np.where(total > 0, np.einsum("nk,nkp->np", influence, moments.surprise), 1.0)


def _solve(system: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve system · x = b (n, K, j) for every query; NaN for those that are singular, and only for those."""
    try:
        return np.linalg.solve(system, b)
    except np.linalg.LinAlgError:
        if len(b) == 1:
            return np.full_like(b, np.nan)
        return np.concatenate([_solve(system[q : q + 1], b[q : q + 1]) for q in range(len(b))])


def _solve_by_eigenvalues(system: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Solve on the scale of correlations, leaving out directions that hold nothing but rounding."""
    scale = 1.0 / np.sqrt(np.einsum("nkk->nk", system))
    correlation = system * scale[:, :, None] * scale[:, None, :]
    # Where numbers have overflowed there is nothing to mend: the weights stay NaN, and so does the answer.
    overflowed = ~np.isfinite(correlation).all(axis=(1, 2))
    correlation[overflowed] = np.eye(system.shape[1])
    values, vectors = np.linalg.eigh(correlation)
    floor = values[:, -1:] * 1e-12 * system.shape[1]
    inverse = np.where(values > floor, 1.0 / np.maximum(values, floor), 0.0)
    along = np.einsum("nkj,nk->nj", vectors, r * scale)
    weight = scale * np.einsum("nkj,nj->nk", vectors, inverse * along)
    weight[overflowed] = np.nan
    return weight
