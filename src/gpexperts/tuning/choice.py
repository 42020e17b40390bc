"""The choice of a setup: the own expert with m rows, K selected experts, or both.

Setups are compared by log density, error and time. The moments of fewer experts are the first columns of the
moments of more, so that one evaluation compares every K and every pruning.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpexperts.aggregation import Aggregator
from gpexperts.calibration import Calibration
from gpexperts.choices import Choice, margins
from gpexperts.engines.base import Engine
from gpexperts.experts.moments import ExpertMoments, Request
from gpexperts.held_out import Held
from gpexperts.tuning.corrections import WORTHWHILE, Residuals, Score
from gpexperts.tuning.setups import Setups, Tuning

__all__ = ["Tuned", "scores_of", "tune"]

FIRST_NEIGHBORS = 128
"""The m that is tried first: beyond it, a query takes three times as long with twice as many rows."""
BESIDE, NEIGHBORS_BESIDE = (1, 2, 4), 128
"""Candidates of K and m that are used together."""
COMPARED = 800
"""Held-out rows, about, on which setups are compared. All of them choose the corrections."""
SLOWER = 0.01
"""Nats per query: what more rows of the own expert must gain for each millisecond that they take."""
FEW_EXPERTS = 2
"""If so few selected experts are worse than the own expert, more are not tried."""
PRUNINGS = (0.3, 0.1, 0.03, 0.01, 1e-3)
PRICE = 0.005
"""Nats per query: what twice the time must gain."""
CLEARLY = 0.1
"""Nats per query: what selected experts must gain over the own expert alone. A single query takes ten times
as long with them, and the experts' borders show. The two are tried together if selected experts alone gain
half of it."""
MANY_EXPERTS, DEARER = 1000, 3.0
"""With more experts than this, time has this many times the price: selected experts hardly share work, and
such tables have many queries."""


class Chosen(NamedTuple):
    """A setup without corrections, and the scores that decided."""

    tuning: Tuning
    evidence: dict[str, Any]


class Tuned(NamedTuple):
    """The chosen setup."""

    tuning: Tuning
    choice: Choice
    scores: Calibration
    """Of the held-out rows."""


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


def scores_of(held: list[Held], setups: Setups, aggregator: Aggregator, engine: Engine) -> Calibration:
    """Return the scores of the held-out rows, for one setup and an aggregator as it is."""
    (k,), (m,) = setups
    tuner = _Tuner(held, aggregator, engine)
    return tuner.rows.standardised(Tuning(k, m), tuner.moments(k, m))


class _Tuner:
    """The held-out rows, and what is known of the setups that were tried."""

    def __init__(self, held: list[Held], aggregator: Aggregator, engine: Engine) -> None:
        self.held, self.aggregator, self.engine = held, aggregator, engine
        self.experts = held[0].rest
        self.rows = Residuals(held, aggregator)
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
            by_prune = {p: self.rows.score(moments.without_weak(p)).loss for p in PRUNINGS}
            harmless = [p for p, value in by_prune.items() if value <= loss + 0.5 * WORTHWHILE]
            evidence["loss_by_prune"] = by_prune
            if harmless:
                tuning = tuning._replace(prune=max(harmless))
        return Chosen(tuning, evidence)

    def corrected(self, chosen: Chosen) -> Tuned:
        """Choose the corrections of the variance of a setup."""
        tuning, evidence = chosen
        moments = self.moments(tuning.n_selected, tuning.n_neighbors).without_weak(tuning.prune)
        evidence["rows"] = len(self.rows.y)
        if self.rows.corrects:
            tuning, evidence["nlpd_by_correction"] = self.rows.choose(tuning, moments)
        evidence["tuning"] = tuning._asdict()
        choice = Choice(str(tuning), _reason(tuning, evidence["loss_by_setup"], len(self.rows.y)), evidence)
        return Tuned(tuning, choice, self.rows.standardised(tuning, moments))

    @property
    def _dearer(self) -> float:
        """Price of time, in units of that of few experts."""
        return DEARER if self.experts.n_experts > MANY_EXPERTS else 1.0

    def _cheapest(self, own: list[Tuning]) -> Tuning:
        """The setup with the best loss after the price of its time; `own` is empty or the best own expert."""
        price = PRICE * self._dearer
        losses = {t: s.loss + price * t.doublings for t, s in self.tried.items() if t.n_selected > 0}
        if not losses:
            return own[0]
        best = min(losses, key=losses.__getitem__)
        if own and losses[best] > self.tried[own[0]].loss + price * own[0].doublings - CLEARLY:
            return own[0]
        return best

    def _best_neighbors(self, own: list[int]) -> Tuning:
        """Choose m of the own expert alone.

        From a middle size on, more rows must gain much. Fewer rows must be better in density and in error: if
        the kernel is right they are worse.
        """
        first = i = min(range(len(own)), key=lambda i: abs(own[i] - FIRST_NEIGHBORS))
        self._score_of_own(own[first])  # also of a given m
        while i > 0 and self._score_of_own(own[i - 1]).is_better_than(self._score_of_own(own[i])):
            i -= 1
        if i == first:
            while i < len(own) - 1 and self._pays(own[i], own[i + 1]):
                i += 1
        return Tuning(0, own[i])

    def _score_of_own(self, m: int) -> Score:
        if Tuning(0, m) not in self.tried:
            self.tried[Tuning(0, m)] = self.rows.score(self.moments(0, m))
        return self.tried[Tuning(0, m)]

    def _pays(self, fewer: int, more: int) -> bool:
        """Whether an own expert of more rows gains what its time must gain."""
        gain = self._score_of_own(fewer).loss - self._score_of_own(more).loss
        return gain > SLOWER * self._dearer * (Tuning(0, more).cost - Tuning(0, fewer).cost)

    def _try_experts(self, fixed: list[int]) -> None:
        """Try selected experts; few of them first, if there is an own expert to compare with."""
        few = [k for k in fixed if k <= FEW_EXPERTS]
        for tried in [few, fixed] if self.tried and few and few != fixed else [fixed]:
            best_own = min((score.loss for score in self.tried.values()), default=np.inf)
            moments = self.moments(max(tried), 0)
            for k in tried:
                self.tried[Tuning(k)] = self.rows.score(moments.first(k))
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
            if best_fixed > best_own - 0.5 * CLEARLY:
                return
        moments = self.moments(max(beside), m)
        for k in beside:
            self.tried[Tuning(k, m)] = self.rows.score(moments.first(1 + k))

    def moments(self, n_selected: int, n_neighbors: int) -> ExpertMoments:
        request = Request(
            covariance=self.aggregator.needs_covariance,
            communication=self.aggregator.needs_communication,
            local_noise=self.rows.corrects or self.aggregator.needs_local_noise,
            n_neighbors=n_neighbors,
        )
        return ExpertMoments.concatenate([h.moments(n_selected, request, self.engine) for h in self.held])


def _reason(tuning: Tuning, by_setup: dict[str, float], n: int) -> str:
    compared = margins(str(tuning), by_setup)
    if min(by_setup.values()) < by_setup[str(tuning)]:
        compared += ", no clear gain for the time"
    corrections = []
    if tuning.disagreement is not None:
        corrections.append(f"disagreement with ν = {tuning.disagreement:g}")
    if tuning.local_noise:
        corrections.append(f"local noise with exponent {tuning.local_noise:g}")
    if tuning.scale != 1.0:
        corrections.append(f"a factor of {tuning.scale:.3g}")
    return (
        f"loss {by_setup[str(tuning)]:.4g} on {n} held-out rows{compared and f', {compared}'}; "
        f"the variance is corrected by {' and '.join(corrections) or 'nothing'}"
    )
