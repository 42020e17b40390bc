"""Joint training: one θ for all experts, by the sum of their log marginal likelihoods.

    L(θ) = Σ_i log p(y_i | X_i, θ)

with exact gradients, maximised by L-BFGS-B over log-hyperparameters within their bounds. The terms
are independent, so that an engine may compute them in any order and place; they are always summed in
the order of the parts, so that the answer does not depend on who computed what.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import Kernel

from gpexperts.engines.base import Engine, Held
from gpexperts.exceptions import BoundWarning, NotPositiveDefiniteError, RepairWarning
from gpexperts.kernels.named import Covariance, hyperparameter_names
from gpexperts.linalg.cholesky import factorise

if TYPE_CHECKING:
    from gpexperts.experts.checkpoint import Checkpoint

__all__ = [
    "Block",
    "TraceRow",
    "Training",
    "log_marginal_likelihood",
    "maximise_likelihood",
    "warn_of_bounds",
    "warn_of_jitter",
]


class Block(NamedTuple):
    """Rows that are trained on together."""

    X: np.ndarray
    """Inputs, (m, d)."""
    y: np.ndarray
    """Targets, (m, n_outputs)."""


class TraceRow(NamedTuple):
    """One step of the optimiser."""

    step: int
    log_marginal_likelihood: float
    gradient_norm: float
    """Largest component of the gradient."""
    loo_error: float
    """Mean squared error of each row predicted from the others of its block."""
    jittered: int
    """Blocks whose covariance matrix needed jitter."""
    seconds: float
    """Since training began."""
    theta: np.ndarray
    """Log-hyperparameters, in the order of `kernel.theta`."""
    stage: int = 0
    """Stages train on different rows: likelihoods of two of them cannot be compared."""


class Training(NamedTuple):
    """What joint training found."""

    covariance: Covariance
    trace: list[TraceRow]
    """The steps of the best run; the last row is the result."""


class BlockLikelihood(NamedTuple):
    """Contribution of one block, or the sum over all."""

    value: float
    gradient: np.ndarray
    loo_error: float
    """Sum of the squared errors of each row predicted from the others."""
    jitter: float
    """Jitter of the block, relative to its mean diagonal; of a sum, the number of blocks with any."""


def _likelihood_of(block: Block, covariance: Covariance) -> BlockLikelihood:
    return log_marginal_likelihood(covariance, block)


def _shape_of(block: Block, _: None) -> tuple[int, int]:
    return block.y.shape


def log_marginal_likelihood(covariance: Covariance, block: Block) -> BlockLikelihood:
    """Log p(y | X, θ) of one block and its gradient in log-hyperparameters.

    Rasmussen & Williams (2006), eqs. 5.8 and 5.9; several outputs share θ and their terms add up.
    """
    X, y = block
    m, n_outputs = y.shape
    C, gradient = covariance.noisy_gram_with_gradient(X)
    factor = factorise(C, who="covariance matrix of a training block")
    alpha = factor.solve(np.array(y.T, order="C"))  # (n_outputs, m)
    value = -0.5 * (
        float(np.vdot(alpha, y.T)) + n_outputs * (factor.log_determinant() + m * np.log(2.0 * np.pi))
    )
    S = factor.inverse()
    # Left out, row i is predicted with the error α_i / (C⁻¹)_ii (Rasmussen & Williams, eq. 5.12).
    loo_error = float(((alpha / np.diagonal(S)) ** 2).sum())
    S *= -float(n_outputs)
    S += alpha.T @ alpha
    return BlockLikelihood(value, gradient(S, factor.jitter), loo_error, factor.jitter)


def maximise_likelihood(
    covariance: Covariance,
    blocks: Sequence[Block] | Held[Block],
    engine: Engine,
    *,
    n_restarts: int = 0,
    random_state: np.random.RandomState | None = None,
    max_steps: int = 200,
    tolerance: float = 1e-7,
    on_step: Callable[[TraceRow], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Training:
    """Maximise Σ_i log p(y_i | X_i, θ) over the kernel's free hyperparameters.

    Parameters
    ----------
    covariance : Covariance
        Carries the kernel to start from and its bounds.
    blocks : sequence of Block, or Held
        One per part; held ones are already where the engine works.
    engine : Engine
        Where the blocks' terms are computed.
    n_restarts : int
        Further starts, drawn log-uniformly within a factor of ten of the given one.
    random_state : RandomState, optional
        For the restarts.
    max_steps : int
        Limit of L-BFGS iterations per start; 0 only evaluates the start.
    tolerance : float
        Gain of log likelihood per row, relative to its value or to 1, below which a start is done.
    on_step : callable, optional
        Called with every :class:`TraceRow`, for progress reports.
    checkpoint : Checkpoint, optional
        Keeps every step, and knows those of a former attempt.

    Returns
    -------
    Training
    """
    kernel = covariance.kernel
    began = time.perf_counter()
    held = blocks if isinstance(blocks, Held) else engine.hold(blocks, [float(len(b.y)) ** 3 for b in blocks])
    shapes = held.map(_shape_of, None) if isinstance(blocks, Held) else [b.y.shape for b in blocks]
    n_rows, n_outputs = sum(rows for rows, _ in shapes), shapes[0][1]

    def evaluate(theta: np.ndarray) -> BlockLikelihood:
        here = covariance.at(theta)
        terms = held.map(_likelihood_of, here)
        value = sum(t.value for t in terms)
        slope = np.sum([t.gradient for t in terms], axis=0)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            raise NotPositiveDefiniteError(
                f"The likelihood is not finite at the hyperparameters {here.kernel}. "
                "Narrow the kernel's bounds, or raise the lower bound of its noise."
            )
        errors = sum(t.loo_error for t in terms)
        return BlockLikelihood(value, slope, errors, sum(t.jitter > 0 for t in terms))

    def climb(start: np.ndarray) -> list[TraceRow]:
        trace: list[TraceRow] = []
        if checkpoint is not None:
            trace, done = checkpoint.begin()
            if done:
                return trace
        seen: dict[bytes, BlockLikelihood] = {}

        def descend(theta: np.ndarray) -> tuple[float, np.ndarray]:
            seen[theta.tobytes()] = here = evaluate(theta)
            return -here.value / n_rows, -here.gradient / n_rows

        def record(theta: np.ndarray) -> None:
            here = seen.get(theta.tobytes()) or evaluate(theta)
            seen.clear()
            trace.append(
                TraceRow(
                    step=len(trace),
                    log_marginal_likelihood=here.value,
                    gradient_norm=float(np.abs(here.gradient).max(initial=0.0)),
                    loo_error=here.loo_error / (n_rows * n_outputs),
                    jittered=int(here.jitter),
                    seconds=time.perf_counter() - began,
                    theta=theta.copy(),
                )
            )
            if checkpoint is not None:
                checkpoint.step(trace[-1])
            if on_step is not None:
                on_step(trace[-1])

        if trace:
            start = trace[-1].theta
        else:
            record(start)
        steps_left = max_steps - (len(trace) - 1)
        if steps_left > 0 and len(start):
            # Per row, so that the tolerances mean the same for 10^2 and for 10^7 rows: a step that gains
            # less than `tolerance` nats a row is the last.
            # Next to singular matrices, jitter makes steps in the likelihood at which a search finds no end.
            options = {"maxiter": steps_left, "ftol": tolerance, "gtol": tolerance, "maxls": 8}
            minimize(
                descend, start, jac=True, method="L-BFGS-B", bounds=kernel.bounds,
                callback=record, options=options,
            )  # fmt: skip
        if checkpoint is not None:
            checkpoint.end()
        return trace

    start = kernel.theta
    if max_steps == 0 or len(start) == 0:
        return Training(covariance, climb(start))
    low, high = kernel.bounds.T
    start = np.clip(start, low, high)
    traces = [climb(start)]
    for _ in range(n_restarts):
        assert random_state is not None
        shift = random_state.uniform(-np.log(10.0), np.log(10.0), size=start.shape)
        traces.append(climb(np.clip(start + shift, low, high)))
    best = max(traces, key=lambda trace: trace[-1].log_marginal_likelihood)
    return Training(covariance.at(best[-1].theta), best)


def warn_of_bounds(kernel: Kernel, *, irrelevance_is_news: bool = True) -> None:
    """Warn, once and by name, of every free hyperparameter that lies at one of its bounds.

    Parameters
    ----------
    kernel : Kernel
    irrelevance_is_news : bool
        Whether a length scale at its upper bound counts. It says that an input has no influence,
        which is no reason to widen a bound that was chosen far out.
    """
    at_bound = []
    for name, value, bounds in zip(hyperparameter_names(kernel), kernel.theta, kernel.bounds, strict=True):
        for which, bound in zip(("lower", "upper"), bounds, strict=True):
            if which == "upper" and "length_scale" in name and not irrelevance_is_news:
                continue
            if np.isclose(value, bound, rtol=0, atol=1e-6) and bounds[0] < bounds[1]:
                at_bound.append(f"{name} = {np.exp(value):.3g} ({which} bound)")
    if at_bound:
        warnings.warn(
            f"These hyperparameters ended at a bound: {', '.join(at_bound)}. Widen the bound in the "
            "kernel if the fit matters there; a length scale at its upper bound means that the input "
            "has no influence.",
            BoundWarning,
            stacklevel=2,
        )


def warn_of_jitter(who: str) -> None:
    """Warn that the matrices of `who` could only be factorised with jitter."""
    warnings.warn(
        f"{who} needed jitter to be factorised at the trained hyperparameters (repairs_ counts them). The "
        "noise is very small or rows are repeated; predictions are sound, but a WhiteKernel with a larger "
        "lower bound is safer.",
        RepairWarning,
        stacklevel=5,
    )
