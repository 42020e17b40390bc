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
from gpexperts.choices import Choice
from gpexperts.engines.base import Engine
from gpexperts.experts.moments import ExpertMoments, Prediction, Request
from gpexperts.held_out import Held
from gpexperts.row_noise import observation_variance, weights

__all__ = ["NEIGHBORS", "Setups", "Tuned", "Tuning", "leaves_corrections", "scores_of", "tune"]

EXPERTS = (1, 2, 3, 4, 5, 6, 8)
NEIGHBORS = (32, 64, 128, 256, 512, 1024)
FIRST_NEIGHBORS = 256
BESIDE, NEIGHBORS_BESIDE = (1, 2, 4), 128
"""Candidates of K and of m, the m that is tried first, and candidates of K and m used together."""
COMPARED = 500
"""Held-out rows, about, on which setups are compared. All of them choose the corrections."""
DOUBLED = 0.04
"""Nats per query: what twice as many rows of the own expert must gain, as the query then takes four times as
long."""
CLOSE = 0.015
"""Nats per query: the own expert and selected experts are tried together if they are this close."""
FEW_EXPERTS = 3
"""If so few selected experts are worse than the own expert, more are not tried."""
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
PREMIUM = 0.02
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

    @property
    def doublings(self) -> float:
        """log₂ of the cost."""
        return float(np.log2(self.cost))

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


class Score(NamedTuple):
    """How well a setup predicts held-out rows."""

    nlpd: float
    """After the best correction of the variance: the choice does not depend on what is corrected later."""
    squared_error: float

    @property
    def loss(self) -> float:
        """The mean of NLPD and ½ log of the squared error: the error counts as much as the density."""
        return 0.5 * (self.nlpd + 0.5 * float(np.log(self.squared_error)))

    def is_as_good_as(self, other: Score) -> bool:
        """Whether neither NLPD nor squared error is worse."""
        worse = np.exp(2.0 * WORTHWHILE) * other.squared_error
        return self.nlpd <= other.nlpd + WORTHWHILE and self.squared_error <= worse


class Chosen(NamedTuple):
    """A setup without corrections, and the scores that decided."""

    tuning: Tuning
    evidence: dict[str, Any]


class Tuned(NamedTuple):
    """The chosen setup."""

    tuning: Tuning
    choice: Choice
    scores: np.ndarray
    """(n, p) |y − mean| / std of the held-out rows."""
    weights: np.ndarray
    """(n,) their weights."""


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
    stride = max(1, sum(len(h.y) for h in held) // COMPARED)
    few = [h._replace(X=h.X[::stride], y=h.y[::stride], noise=h.noise[::stride]) for h in held]
    chosen = _Tuner(few, aggregator, engine).choose(setups)
    return _Tuner(held, aggregator, engine).corrected(chosen)


def scores_of(
    held: list[Held], setups: Setups, aggregator: Aggregator, engine: Engine
) -> tuple[np.ndarray, np.ndarray]:
    """Return |y − mean| / std (n, p) of the held-out rows, for one setup and an aggregator as it is.

    Also returned are the weights (n,) of the rows.
    """
    (k,), (m,) = setups
    tuner = _Tuner(held, aggregator, engine)
    return tuner.scores(Tuning(k, m), tuner.moments(k, m)), tuner.weights


class _Tuner:
    """The held-out rows, and what is known of the setups that were tried."""

    def __init__(self, held: list[Held], aggregator: Aggregator, engine: Engine) -> None:
        self.held, self.aggregator, self.engine = held, aggregator, engine
        self.experts = held[0].rest
        self.y = np.concatenate([h.y for h in held])
        noise = np.concatenate([h.noise for h in held])
        self.weights = weights(noise)
        self.noise = observation_variance(noise, self.experts.covariance.noise_variance)
        self.corrects = leaves_corrections(aggregator)
        self.tried: dict[Tuning, Score] = {}

    def choose(self, setups: Setups) -> Chosen:
        """Choose the experts of a query, without corrections of the variance."""
        fixed = [k for k in setups.experts if 0 < k <= self.experts.n_experts]
        own = [m for m in setups.neighbors if m > 0]
        chosen = [self._best_neighbors(own)] if own and 0 in setups.experts else []
        if fixed and 0 in setups.neighbors:
            self._try_experts(fixed)
        self._try_both(fixed, own, alone=0 in setups.experts, without=0 in setups.neighbors)
        tuning = self._cheapest(chosen)
        loss = self.tried[tuning].loss
        evidence: dict[str, Any] = {"loss_by_setup": {str(t): score.loss for t, score in self.tried.items()}}
        if tuning.n_selected > 1 and len(fixed) > 1:  # a given K is used as it is
            moments = self.moments(tuning.n_selected, tuning.n_neighbors)
            by_prune = {p: self._score(moments.without_weak(p)).loss for p in PRUNINGS}
            harmless = [p for p, value in by_prune.items() if value <= loss + 0.5 * WORTHWHILE]
            evidence["loss_by_prune"] = by_prune
            if harmless:
                tuning = tuning._replace(prune=max(harmless))
        return Chosen(tuning, evidence)

    def corrected(self, chosen: Chosen) -> Tuned:
        """Choose the corrections of the variance of a setup."""
        tuning, evidence = chosen
        moments = self.moments(tuning.n_selected, tuning.n_neighbors).without_weak(tuning.prune)
        evidence["rows"] = len(self.y)
        if self.corrects:
            tuning, evidence["nlpd_by_correction"] = self._corrected(tuning, moments)
        evidence["tuning"] = tuning._asdict()
        choice = Choice(str(tuning), _reason(tuning, evidence["loss_by_setup"], len(self.y)), evidence)
        return Tuned(tuning, choice, self.scores(tuning, moments), self.weights)

    def _cheapest(self, own: list[Tuning]) -> Tuning:
        """The setup with the best loss after the price of its time; `own` is empty or the best own expert."""
        price = PRICE * (DEARER if self.experts.n_experts > MANY_EXPERTS else 1.0)
        losses = {t: s.loss + price * t.doublings for t, s in self.tried.items() if t.n_selected > 0}
        if not losses:
            return own[0]
        best = min(losses, key=losses.__getitem__)
        if own and losses[best] > self.tried[own[0]].loss + price * own[0].doublings - CLEARLY:
            return own[0]
        return best

    def _best_neighbors(self, own: list[int]) -> Tuning:
        """Choose m of the own expert alone.

        From a middle size on, more rows must gain much. Fewer rows must not be worse, neither in density nor
        in error.
        """

        def score(m: int) -> Score:
            if Tuning(0, m) not in self.tried:
                self.tried[Tuning(0, m)] = self._score(self.moments(0, m))
            return self.tried[Tuning(0, m)]

        first = i = min(range(len(own)), key=lambda i: abs(own[i] - FIRST_NEIGHBORS))
        middle = score(own[first])
        while i > 0 and score(own[i - 1]).is_as_good_as(score(own[i])):
            i -= 1
        # More rows are tried only if the last doubling of m has gained as much.
        if i == first > 0 and middle.loss < score(own[i - 1]).loss - DOUBLED:
            while i < len(own) - 1 and score(own[i + 1]).loss < score(own[i]).loss - DOUBLED:
                i += 1
        return Tuning(0, own[i])

    def _try_experts(self, fixed: list[int]) -> None:
        """Try selected experts; few of them first, if there is an own expert to compare with."""
        few = [k for k in fixed if k <= FEW_EXPERTS]
        for tried in [few, fixed] if self.tried and few and few != fixed else [fixed]:
            best_own = min((score.loss for score in self.tried.values()), default=np.inf)
            moments = self.moments(max(tried), 0)
            for k in tried:
                self.tried[Tuning(k)] = self._score(moments.first(k))
            if min(self.tried[Tuning(k)].loss for k in tried) > best_own:
                return

    def _try_both(self, fixed: list[int], own: list[int], *, alone: bool, without: bool) -> None:
        """Try the own expert beside selected ones, if one of them alone is not clearly better."""
        if not (fixed and own and self.aggregator.needs_covariance):
            return
        m = min(own, key=lambda m: abs(m - NEIGHBORS_BESIDE))
        beside = [k for k in BESIDE if k in fixed] or fixed[-1:]
        if not (alone and without):  # K or m is given
            beside = beside if alone else fixed[-1:]
        else:
            best_own = min(score.loss for t, score in self.tried.items() if t.n_selected == 0)
            best_fixed = min(score.loss for t, score in self.tried.items() if t.n_selected > 0)
            if abs(best_own - best_fixed) > CLOSE:
                return
        moments = self.moments(max(beside), m)
        for k in beside:
            self.tried[Tuning(k, m)] = self._score(moments.first(1 + k))

    def moments(self, n_selected: int, n_neighbors: int) -> ExpertMoments:
        request = Request(
            covariance=self.aggregator.needs_covariance,
            communication=self.aggregator.needs_communication,
            local_noise=self.corrects or self.aggregator.needs_local_noise,
            n_neighbors=n_neighbors,
        )
        return ExpertMoments.concatenate([h.moments(n_selected, request, self.engine) for h in self.held])

    def _score(self, moments: ExpertMoments) -> Score:
        """NLPD, with the best correction if one is to be chosen, and squared error."""
        prediction = self.aggregator.combine(moments)
        residual = self.y - prediction.mean
        if self.corrects:
            tried = self._corrections(Tuning(0), moments, ROUGH_DISAGREEMENTS, ROUGH_LOCAL_NOISES)
            nlpd = min(loss for loss, _ in tried)
        else:
            nlpd = float(_nlpd(residual, np.sqrt(prediction.observation_var(self.noise)), self.weights))
        error = float(np.average(np.mean(residual**2, axis=1), weights=self.weights))
        return Score(nlpd, max(error, np.finfo(float).tiny))

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
            if _nlpd(self.y - prediction.mean, std, self.weights) <= loss + PREMIUM:
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
        return _nlpd(self.y - prediction.mean, std, self.weights).tolist()

    def scores(self, tuning: Tuning, moments: ExpertMoments) -> np.ndarray:
        prediction = tuning.applied(self.aggregator).combine(moments)
        return np.abs(self.y - prediction.mean) / np.sqrt(prediction.observation_var(self.noise))


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


def _nlpd(residual: np.ndarray, std: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """NLPD (…) of residuals (n, p) and stds (…, n, p), averaged by the weights (n,) of the rows.

    Standardised residuals are clipped to ±`CLIPPED`.
    """
    z = np.clip(residual / std, -CLIPPED, CLIPPED)
    each = np.mean(0.5 * z**2 + np.log(std), axis=-1)
    return np.asarray(np.average(each, axis=-1, weights=weight) + 0.5 * np.log(2.0 * np.pi))


def _number_of_corrections(tuning: Tuning) -> int:
    return (tuning.disagreement is not None) + (tuning.local_noise > 0) + (tuning.scale != 1.0)
