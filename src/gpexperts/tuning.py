"""Which experts a query uses, and how the variance is corrected: chosen by held-out rows.

Compared are the own expert with m rows, K selected experts, and both, by log density, error and time.
The moments of fewer experts are the first columns of the moments of more, so that one evaluation compares
every K, every pruning and every correction of the variance. Corrections are chosen by log density alone.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from gpexperts.aggregation import NPAE, Aggregator
from gpexperts.calibration import Calibration
from gpexperts.choices import Choice
from gpexperts.engines.base import Engine
from gpexperts.experts.moments import ExpertMoments, Prediction, Request
from gpexperts.held_out import Held

__all__ = ["NEIGHBORS", "Setups", "Tuned", "Tuning", "leaves_corrections", "scores_of", "tune"]

EXPERTS = (1, 2, 3, 4, 5, 6, 8)
NEIGHBORS = (32, 64, 128, 256, 512)
FIRST_NEIGHBORS = 128
BESIDE = (1, 2, 4)
"""Candidates of K, of m, the m that is tried first, and candidates of K beside the own expert."""
CLOSE = 0.015
"""Nats per query: the own expert and selected experts are tried together if they are this close."""
BEHIND, FEW_EXPERTS = 0.05, 3
"""If so few selected experts are this much worse than the own expert, more are not tried."""
LARGE, EVERY = 256, 4
"""Own experts with more rows than this are tried on every fourth held-out row first."""
PRUNINGS = (0.3, 0.1, 0.03, 0.01, 1e-3)
DISAGREEMENTS = (None, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
ROUGH_DISAGREEMENTS = (None, 0.5, 2.0, 16.0)
LOCAL_NOISES = (0.0, 0.25, 0.5, 0.75, 1.0)
ROUGH_LOCAL_NOISES = (0.0, 0.5, 1.0)
SCALES = tuple(np.round(np.geomspace(0.1, 10.0, 41), 3).tolist())
CLIPPED = 40.0
"""Standardised residuals are clipped to this size when setups are compared: otherwise a single row with a
gross error in its target would decide."""
FLOORS = (16.0, 8.0, 4.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
PREMIUM = 0.1
"""Candidates of the smallest factor of the variance, and what the chosen one may cost in nats per query: rare
large errors, which the held-out rows may not show, decide how small a variance can be."""
WORTHWHILE = 0.002
"""Nats per query: what more rows or a correction of the variance must gain."""
PRICE = 0.005
"""Nats per query: what twice the time must gain."""
CLEARLY = 0.1
"""Nats per query: what selected experts must gain over the own expert alone. A single query takes ten times
as long with them, and the experts' borders show."""
MANY_EXPERTS, DEARER = 1000, 3.0
"""With more experts than this, queries hardly share work: time has this many times the price."""


class Tuning(NamedTuple):
    """Which experts a query uses, and how the variance of an observation is corrected."""

    n_selected: int
    """K, at most."""
    n_neighbors: int = 0
    """m, of the own expert; 0 for none."""
    prune: float = 0.0
    """Experts that explain less than this share of what the best one explains are dropped."""
    disagreement: float | None = None
    """NPAE's `disagreement`."""
    scale: float = 1.0
    """Factor of NPAE's `scale`."""
    local_noise: float = 0.0
    """NPAE's `local_noise`."""
    floor: float = 0.0
    """NPAE's `floor`."""

    def applied(self, aggregator: Aggregator) -> Aggregator:
        """Return the aggregator with these corrections, where it leaves them to be chosen."""
        if not leaves_corrections(aggregator):
            return aggregator
        assert isinstance(aggregator, NPAE)
        aggregator.check_parameters()
        corrected = copy.copy(aggregator)  # no clone: a user's subclass may have another constructor
        corrected.disagreement = self.disagreement
        corrected.scale = aggregator.scale * self.scale
        corrected.local_noise = max(aggregator.local_noise, self.local_noise)
        corrected.floor = max(aggregator.floor, self.floor)
        return corrected

    @property
    def cost(self) -> float:
        """Milliseconds per query on one thread, roughly: to compare setups."""
        own = 0.02 * (self.n_neighbors / 32) ** 1.9
        fixed = 0.1 * self.n_selected**1.4
        return own + fixed * (3.0 if self.n_neighbors else 1.0)

    def __str__(self) -> str:
        own = f"own expert of {self.n_neighbors} rows" * (self.n_neighbors > 0)
        fixed = f"{self.n_selected} expert{'s' * (self.n_selected > 1)}" * (self.n_selected > 0)
        return " and ".join(filter(None, (own, fixed)))


class Setups(NamedTuple):
    """The setups to choose from."""

    experts: tuple[int, ...]
    """Candidates of K; 0 stands for the own expert alone."""
    neighbors: tuple[int, ...]
    """Candidates of m; 0 stands for no own expert."""


class Tuned(NamedTuple):
    """The chosen setup."""

    tuning: Tuning
    choice: Choice
    scores: Calibration
    """Of the held-out rows."""


def leaves_corrections(aggregator: Aggregator) -> bool:
    """Whether the corrections of the variance are left to be chosen."""
    return isinstance(aggregator, NPAE) and aggregator.disagreement == "auto"


def tune(held: list[Held], setups: Setups, aggregator: Aggregator, engine: Engine) -> Tuned:
    """Choose the setup and the pruning by held-out density, error and time, the corrections by density.

    Parameters
    ----------
    held : list of Held
        At least one.
    setups : Setups
    aggregator : Aggregator
    engine : Engine
    """
    return _Tuner(held, aggregator, engine).choose(setups)


def scores_of(held: list[Held], setups: Setups, aggregator: Aggregator, engine: Engine) -> Calibration:
    """Return the scores of the held-out rows, for one setup and an aggregator as it is."""
    (k,), (m,) = setups
    tuner = _Tuner(held, aggregator, engine)
    return tuner.scores(Tuning(k, m), tuner.moments(k, m))


class _Tuner:
    """The held-out rows, and what is known of the setups that were tried."""

    def __init__(self, held: list[Held], aggregator: Aggregator, engine: Engine) -> None:
        self.held, self.aggregator, self.engine = held, aggregator, engine
        self.experts = held[0].rest
        self.y = np.concatenate([h.y for h in held])
        self.noise = self.experts.covariance.noise_variance
        self.corrects = leaves_corrections(aggregator)
        self.tried: dict[Tuning, tuple[float, ExpertMoments]] = {}

    def choose(self, setups: Setups) -> Tuned:
        many = self.experts.n_experts > MANY_EXPERTS
        price = PRICE * (DEARER if many else 1.0)
        fixed = [k for k in setups.experts if 0 < k <= self.experts.n_experts]
        own = [m for m in setups.neighbors if m > 0]
        if own and 0 in setups.experts:
            self._try_neighbors(own)
        if fixed and 0 in setups.neighbors:
            self._try_experts(fixed)
        self._try_both(fixed, own, alone=0 in setups.experts, without=0 in setups.neighbors)
        tuning = self._cheapest(price)
        loss, moments = self.tried[tuning]
        by_setup = {str(t): value for t, (value, _) in self.tried.items()}
        evidence: dict[str, Any] = {"rows": len(self.y), "loss_by_setup": by_setup}
        if tuning.n_selected > 1 and len(fixed) > 1:  # a given K is used as it is
            by_prune = {p: self._loss(moments.without_weak(p)) for p in PRUNINGS}
            harmless = [p for p, value in by_prune.items() if value <= loss + 0.5 * WORTHWHILE]
            evidence["loss_by_prune"] = by_prune
            if harmless:
                tuning = tuning._replace(prune=max(harmless))
                moments = moments.without_weak(tuning.prune)
        if self.corrects:
            tuning, evidence["nlpd_by_correction"] = self._corrected(tuning, moments)
        evidence["tuning"] = tuning._asdict()
        reason = _reason(tuning, by_setup, len(self.y))
        return Tuned(tuning, Choice(str(tuning), reason, evidence), self.scores(tuning, moments))

    def _cheapest(self, price: float) -> Tuning:
        """The setup with the best loss, after the price of its time."""
        losses = {t: loss + price * float(np.log2(t.cost)) for t, (loss, _) in self.tried.items()}
        own = {t: loss for t, loss in losses.items() if t.n_selected == 0}
        others = {t: loss for t, loss in losses.items() if t.n_selected > 0}
        if not own or not others:
            return min(losses, key=losses.__getitem__)
        best_own, best_other = (min(some, key=some.__getitem__) for some in (own, others))
        return best_other if losses[best_other] < losses[best_own] - CLEARLY else best_own

    def _try(self, setups: Any) -> None:
        for tuning, moments in setups:
            self.tried[tuning] = self._loss(moments), moments

    def _try_neighbors(self, own: list[int]) -> None:
        """Try the own expert alone, from a middle size upwards while it gains, else downwards."""

        def loss(m: int) -> float:
            setup = Tuning(0, m)
            if setup not in self.tried:
                self._try([(setup, self.moments(0, m))])
            return self.tried[setup][0]

        start = min(range(len(own)), key=lambda i: abs(own[i] - FIRST_NEIGHBORS))
        first = loss(own[start])
        for i in range(start + 1, len(own)):
            if own[i] > LARGE and not self._promises(own[i - 1], own[i]):
                break
            if loss(own[i]) > loss(own[i - 1]) - WORTHWHILE:
                break
        if first <= min(loss(m) for m in own[start : start + 2]) + WORTHWHILE:
            for i in range(start - 1, -1, -1):
                if loss(own[i]) > loss(own[i + 1]) + WORTHWHILE:
                    break

    def _promises(self, small: int, large: int) -> bool:
        """Whether an own expert of more rows is better on a part of the held-out rows."""
        few = [h._replace(X=h.X[::EVERY], y=h.y[::EVERY]) for h in self.held]
        some = _Tuner(few, self.aggregator, self.engine)
        some._try((Tuning(0, m), some.moments(0, m)) for m in (small, large))
        return some.tried[Tuning(0, large)][0] < some.tried[Tuning(0, small)][0] - WORTHWHILE

    def _try_experts(self, fixed: list[int]) -> None:
        """Try selected experts; few of them first, if there is an own expert to compare with."""
        few = [k for k in fixed if k <= FEW_EXPERTS]
        for tried in [few, fixed] if self.tried and few and few != fixed else [fixed]:
            best_own = min((loss for loss, _ in self.tried.values()), default=np.inf)
            moments = self.moments(max(tried), 0)
            self._try((Tuning(k), moments.first(k)) for k in tried)
            if min(self.tried[Tuning(k)][0] for k in tried) > best_own + BEHIND:
                return

    def _try_both(self, fixed: list[int], own: list[int], *, alone: bool, without: bool) -> None:
        """Try the own expert beside selected ones, if one of them alone is not clearly better."""
        if not (fixed and own and self.aggregator.needs_covariance):
            return
        m = min(own, key=lambda m: abs(m - FIRST_NEIGHBORS))
        beside = [k for k in BESIDE if k in fixed] or fixed[-1:]
        if not (alone and without):  # K or m is given
            beside = beside if alone else fixed[-1:]
        else:
            best = {t: loss for t, (loss, _) in self.tried.items()}
            best_own = min((t for t in best if t.n_selected == 0), key=best.__getitem__)
            best_fixed = min((t for t in best if t.n_selected > 0), key=best.__getitem__)
            if abs(best[best_own] - best[best_fixed]) > CLOSE:
                return
            m = min(best_own.n_neighbors, FIRST_NEIGHBORS)
        moments = self.moments(max(beside), m)
        self._try((Tuning(k, m), moments.first(1 + k)) for k in beside)

    def moments(self, n_selected: int, n_neighbors: int) -> ExpertMoments:
        request = Request(
            covariance=self.aggregator.needs_covariance,
            communication=self.aggregator.needs_communication,
            local_noise=self.corrects or self.aggregator.needs_local_noise,
            n_neighbors=n_neighbors,
        )
        return ExpertMoments.concatenate([h.moments(n_selected, request, self.engine) for h in self.held])

    def _loss(self, moments: ExpertMoments) -> float:
        """The mean of NLPD, with the best correction if one is to be chosen, and ½ log of the squared error.

        So the choice of a setup does not depend on faults that can be corrected later, and the error counts
        as much as the density.
        """
        prediction = self.aggregator.combine(moments)
        residual = self.y - prediction.mean
        if self.corrects:
            tried = self._corrections(Tuning(0), moments, ROUGH_DISAGREEMENTS, ROUGH_LOCAL_NOISES)
            nlpd = min(loss for loss, _ in tried)
        else:
            nlpd = float(_nlpd(residual, np.sqrt(prediction.observation_var(self.noise))))
        error = max(float(np.mean(residual**2)), np.finfo(float).tiny)
        return 0.5 * (nlpd + 0.5 * float(np.log(error)))

    def _corrected(self, tuning: Tuning, moments: ExpertMoments) -> tuple[Tuning, dict[str, float]]:
        """Choose the corrections of an observation's variance: the fewest that are as good as the best."""
        tried = self._corrections(tuning, moments, DISAGREEMENTS, LOCAL_NOISES)
        least = min(loss for loss, _ in tried)
        good = [(loss, t) for loss, t in tried if loss <= least + WORTHWHILE]
        fewest = min(_number_of_corrections(t) for _, t in good)
        least, chosen = min((loss, t) for loss, t in good if _number_of_corrections(t) == fewest)
        if chosen.local_noise or chosen.disagreement is not None:
            chosen = self._insured(chosen, moments, least)
        evidence: dict[str, float] = {}
        for loss, t in tried:
            kind = f"disagreement={t.disagreement}, local_noise={t.local_noise}"
            evidence[kind] = min(loss, evidence.get(kind, np.inf))
        return chosen, evidence

    def _insured(self, tuning: Tuning, moments: ExpertMoments, loss: float) -> Tuning:
        """Return the setup with the largest floor of the variance that costs little."""
        for floor in FLOORS:
            floored = tuning._replace(floor=floor)
            prediction = floored.applied(self.aggregator).combine(moments)
            std = np.sqrt(prediction.observation_var(self.noise))
            if _nlpd(self.y - prediction.mean, std) <= loss + PREMIUM:
                return floored
        return tuning

    def _corrections(
        self,
        tuning: Tuning,
        moments: ExpertMoments,
        disagreements: Sequence[float | None],
        local_noises: Sequence[float],
    ) -> list[tuple[float, Tuning]]:
        """The NLPD of each correction."""
        tried = []
        scales = SCALES if getattr(self.aggregator, "scale", 1.0) == 1.0 else (1.0,)  # a given one is kept
        several = moments.index.shape[1] > 1 or moments.own_disagreement is not None
        for disagreement, local_noise in product(disagreements if several else (None,), local_noises):
            corrected = tuning._replace(disagreement=disagreement, local_noise=local_noise)
            prediction = corrected.applied(self.aggregator).combine(moments)
            losses = self._losses_by_scale(prediction, moments.prior_var, scales)
            tried += [(loss, corrected._replace(scale=c)) for loss, c in zip(losses, scales, strict=True)]
        return tried

    def _losses_by_scale(
        self, prediction: Prediction, prior_var: np.ndarray, scales: Sequence[float]
    ) -> list[float]:
        """NLPD of a prediction after ``prediction.corrected(scale, prior_var)`` for each scale, at once."""
        share = 1.0 - prediction.var[:, None] / prior_var[:, None]
        root_factor = np.exp(0.5 * np.log(scales)[:, None, None] * share)
        std = np.sqrt(prediction.observation_var(self.noise)) * root_factor
        return _nlpd(self.y - prediction.mean, std).tolist()

    def scores(self, tuning: Tuning, moments: ExpertMoments) -> Calibration:
        prediction = tuning.applied(self.aggregator).combine(moments)
        std = np.sqrt(prediction.observation_var(self.noise))
        return Calibration(np.abs(self.y - prediction.mean) / std, std)


def _reason(tuning: Tuning, by_setup: dict[str, float], n: int) -> str:
    others = sorted((loss, name) for name, loss in by_setup.items() if name != str(tuning))[:3]
    compared = "; ".join(f"{name} {loss:.4g}" for loss, name in others)
    corrections = []
    if tuning.disagreement is not None:
        corrections.append(f"disagreement with ν = {tuning.disagreement:g}")
    if tuning.local_noise:
        corrections.append(f"local noise with exponent {tuning.local_noise:g}")
    if tuning.scale != 1.0:
        corrections.append(f"a factor of {tuning.scale:.3g}")
    return (
        f"loss {by_setup[str(tuning)]:.4g} on {n} held-out rows{compared and f' ({compared})'}; "
        f"the variance is corrected by {' and '.join(corrections) or 'nothing'}"
    )


def _nlpd(residual: np.ndarray, std: np.ndarray) -> np.ndarray:
    """NLPD (…) of residuals (n, p) and stds (…, n, p), with standardised residuals clipped to ±`CLIPPED`."""
    z = np.clip(residual / std, -CLIPPED, CLIPPED)
    return np.asarray(np.mean(0.5 * z**2 + np.log(std), axis=(-2, -1)) + 0.5 * np.log(2.0 * np.pi))


def _number_of_corrections(tuning: Tuning) -> int:
    return (tuning.disagreement is not None) + (tuning.local_noise > 0) + (tuning.scale != 1.0)
