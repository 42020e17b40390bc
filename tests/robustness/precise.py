"""Every expert and every rule in 60-digit decimal arithmetic: what exact arithmetic would say.

Written as the formulas read, with Python's own `decimal`; nothing here uses the library or NumPy's linear
algebra. It is slow (a second for a few dozen rows), so that problems are small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from typing import NamedTuple

import numpy as np

DIGITS = 60
Vector = list[Decimal]
Matrix = list[Vector]

SHAPES: dict[str, Callable[[Decimal], Decimal]] = {
    "rbf": lambda sq: (-sq / 2).exp(),
    "matern12": lambda sq: (-sq.sqrt()).exp(),
    "matern32": lambda sq: (1 + (3 * sq).sqrt()) * (-(3 * sq).sqrt()).exp(),
    "matern52": lambda sq: (1 + (5 * sq).sqrt() + 5 * sq / 3) * (-(5 * sq).sqrt()).exp(),
    # What scikit-learn calls 1.0 * RBF(ℓ) + 0.5 * RationalQuadratic(ℓ, alpha=1), relative to its value at 0.
    "composite": lambda sq: ((-sq / 2).exp() + 1 / (2 + sq)) / Decimal("1.5"),
}


class Precise(NamedTuple):
    """Data and a kernel s² shape(|x − x'| / ℓ) + diagonal, in which all arithmetic has 60 digits."""

    X: np.ndarray
    y: np.ndarray
    shape: str
    signal: float
    length_scale: np.ndarray
    diagonal: float
    """Noise, or what stands in its place, absolute."""

    def k(self, a: np.ndarray, b: np.ndarray) -> Decimal:
        sq = Decimal(0)
        for p, q, scale in zip(a, b, self.length_scale, strict=True):
            sq += ((Decimal(float(p)) - Decimal(float(q))) / Decimal(float(scale))) ** 2
        return Decimal(self.signal) * SHAPES[self.shape](sq)

    def expert(self, rows: Sequence[int], query: np.ndarray) -> Expert:
        """What the GP on some of the rows says about one query."""
        C = [[self.k(self.X[i], self.X[j]) for j in rows] for i in rows]
        for i in range(len(rows)):
            C[i][i] += Decimal(self.diagonal)
        k = [self.k(self.X[i], query) for i in rows]
        q = solve(C, k)
        mean = dot(q, [Decimal(float(self.y[i])) for i in rows])
        return Expert(list(rows), q, mean, dot(q, k))


class Expert(NamedTuple):
    """q, μ and r of one expert at one query."""

    rows: list[int]
    q: Vector
    mean: Decimal
    explained: Decimal


def predict(
    model: Precise, labels: np.ndarray, rule: str, query: np.ndarray, nugget: float = 1e-8
) -> tuple[float, float]:
    """Mean and latent variance of a rule at one query, all experts asked."""
    with localcontext() as context:
        context.prec = DIGITS
        shared = np.flatnonzero(labels < 0).tolist()
        parts = [shared + np.flatnonzero(labels == i).tolist() for i in range(int(labels.max()) + 1)]
        experts = [model.expert(part, query) for part in parts]
        prior = Decimal(model.signal)
        if rule == "npae":
            mean, var = _npae(model, experts, prior, Decimal(nugget))
        elif rule == "grbcm":
            mean, var = _grbcm(experts, model.expert(shared, query), prior)
        else:
            mean, var = _independent(experts, prior, rule)
        return float(mean), float(var)


def _independent(experts: list[Expert], prior: Decimal, rule: str) -> tuple[Decimal, Decimal]:
    betas = {
        "poe": lambda e: Decimal(1),
        "gpoe": lambda e: Decimal(1) / len(experts),
        "bcm": lambda e: Decimal(1),
        "rbcm": lambda e: (prior.ln() - (prior - e.explained).ln()) / 2,
    }
    beta = [betas[rule](e) for e in experts]
    precision = sum(b / (prior - e.explained) for b, e in zip(beta, experts, strict=True))
    if rule in ("bcm", "rbcm"):
        precision += (1 - sum(beta)) / prior
    total = sum(b * e.mean / (prior - e.explained) for b, e in zip(beta, experts, strict=True))
    return total / precision, 1 / precision


def _grbcm(experts: list[Expert], c: Expert, prior: Decimal) -> tuple[Decimal, Decimal]:
    v_c = prior - c.explained
    v = [prior - e.explained for e in experts]
    first = min(range(len(v)), key=v.__getitem__)
    beta = [Decimal(1) if i == first else (v_c.ln() - v[i].ln()) / 2 for i in range(len(v))]
    precision = sum(b / x for b, x in zip(beta, v, strict=True)) - (sum(beta) - 1) / v_c
    total = sum(b * e.mean / x for b, e, x in zip(beta, experts, v, strict=True))
    return (total - (sum(beta) - 1) * c.mean / v_c) / precision, 1 / precision


def _npae(model: Precise, experts: list[Expert], prior: Decimal, nugget: Decimal) -> tuple[Decimal, Decimal]:
    # An expert who explains nothing is not heard, and one who is heard alone is taken at its word.
    experts = [e for e in experts if e.explained > Decimal("1e-100") * prior]
    if not experts:
        return Decimal(0), prior
    r = [e.explained for e in experts]
    R = [[_covariance(model, a, b) if a is not b else a.explained for b in experts] for a in experts]
    if len(experts) > 1:
        for i in range(len(experts)):
            R[i][i] += nugget * prior
    w = solve(R, r)
    return dot(w, [e.mean for e in experts]), prior - dot(w, r)


def _covariance(model: Precise, a: Expert, b: Expert) -> Decimal:
    return sum(
        (
            q * p * model.k(model.X[i], model.X[j])
            for q, i in zip(a.q, a.rows, strict=True)
            for p, j in zip(b.q, b.rows, strict=True)
        ),
        Decimal(0),
    )


def solve(A: Matrix, b: Vector) -> Vector:
    """Solve a positive definite system by Cholesky's method."""
    m = len(b)
    L: Matrix = [[Decimal(0)] * m for _ in range(m)]
    for i in range(m):
        for j in range(i + 1):
            rest = A[i][j] - dot(L[i][:j], L[j][:j])
            L[i][j] = rest.sqrt() if i == j else rest / L[j][j]
    half: Vector = []
    for i in range(m):
        half.append((b[i] - dot(L[i][:i], half)) / L[i][i])
    x: Vector = [Decimal(0)] * m
    for i in reversed(range(m)):
        x[i] = (half[i] - sum((L[j][i] * x[j] for j in range(i + 1, m)), Decimal(0))) / L[i][i]
    return x


def dot(a: Vector, b: Vector) -> Decimal:
    return sum((p * q for p, q in zip(a, b, strict=True)), Decimal(0))
