"""Joint training: one θ for all experts, by the sum of their log marginal likelihoods.

    L(θ) = Σ_i log p(y_i | X_i, θ)

with exact gradients, maximised by L-BFGS-B over log-hyperparameters within their bounds. The terms
are independent, and an engine may compute them in any order. They are summed in the order of the blocks,
so that the result does not depend on the engine.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import Kernel

from gpexperts.engines.base import Engine, Held
from gpexperts.exceptions import BoundWarning, NotPositiveDefiniteError, RepairWarning
from gpexperts.kernels.base import Covariance
from gpexperts.kernels.named import hyperparameter_names
from gpexperts.linalg.cholesky import factorise
from gpexperts.linalg.leave_one_out import LeaveOneOut
from gpexperts.row_noise import total_weight, weights

__all__ = [
    "Block",
    "BlockLikelihood",
    "TraceRow",
    "Training",
    "log_marginal_likelihood",
    "maximise_likelihood",
    "warn_of_bounds",
    "warn_of_jitter",
]


class Block(NamedTuple):
    """Rows that form one term of the likelihood."""

    X: np.ndarray
    """Inputs, (m, d)."""
    y: np.ndarray
    """Targets, (m, n_outputs)."""
    noise: np.ndarray | None = None
    """Weight and given noise of each row, (m, 2) or (m, 0); see `row_noise`. None stands for (m, 0)."""

    @property
    def total_weight(self) -> float:
        """The number of rows that these stand for."""
        return total_weight(self.noise, len(self.y))


class TraceRow(NamedTuple):
    """One step of the optimiser."""

    step: int
    log_marginal_likelihood: float
    gradient_norm: float
    """Largest component of the gradient."""
    loo_error: float
    """Mean squared leave-one-out residual, each row predicted from the others of its block."""
    jittered: int
    """Blocks whose covariance matrix needed jitter."""
    seconds: float
    """Since training began."""
    theta: np.ndarray
    """Log-hyperparameters, in the order of `kernel.theta`."""
    stage: int = 0
    """Stages train on different rows: likelihoods of different stages cannot be compared."""


class Training(NamedTuple):
    """Result of joint training."""

    covariance: Covariance
    trace: list[TraceRow]
    """The steps of the best start; the last row is the result."""


class BlockLikelihood(NamedTuple):
    """Term of one block, or the sum over all blocks."""

    value: float
    gradient: np.ndarray
    loo_error: float
    """Sum of the squared leave-one-out residuals, times the weights of their rows."""
    jitter: float
    """Jitter of the block, relative to its mean diagonal; of a sum, the number of blocks with any."""


def block_likelihood(block: Block, covariance: Covariance) -> BlockLikelihood:
    return log_marginal_likelihood(covariance, block)


def block_shape(block: Block, _: None) -> tuple[float, int]:
    return block.total_weight, block.y.shape[1]


def log_marginal_likelihood(covariance: Covariance, block: Block) -> BlockLikelihood:
    """Log p(y | X, θ) of one block and its gradient with respect to log-hyperparameters.

    Rasmussen & Williams (2006), eqs. 5.8 and 5.9; several outputs share θ and their terms are summed. A row
    of weight w counts as w rows.
    """
    X, y, noise = block
    m, n_outputs = y.shape
    C, gradient = covariance.noisy_gram_with_gradient(X, noise)
    factor = factorise(C, name="covariance matrix of a training block")
    alpha = factor.solve(np.array(y.T, order="C"))  # (n_outputs, m)
    value = -0.5 * (
        float(np.vdot(alpha, y.T)) + n_outputs * (factor.log_determinant() + m * np.log(2.0 * np.pi))
    )
    S = factor.inverse()
    squares = LeaveOneOut(alpha, np.diagonal(S)).residual ** 2
    loo_error = float((squares if noise is None else squares * weights(noise)).sum())
    S *= -float(n_outputs)
    S += alpha.T @ alpha
    more, more_gradient = covariance.copies(noise)
    slopes = gradient(S, factor.jitter) + n_outputs * more_gradient
    return BlockLikelihood(value + n_outputs * more, slopes, loo_error, factor.jitter)


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
) -> Training:
    """Maximise Σ_i log p(y_i | X_i, θ) over the kernel's free hyperparameters.

    Parameters
    ----------
    covariance : Covariance
        Its kernel is the first start and has the bounds.
    blocks : sequence of Block, or Held
        The terms; held blocks are already where the engine computes.
    engine : Engine
        Computes the terms.
    n_restarts : int
        Further starts, drawn log-uniformly within a factor of ten of the first one.
    random_state : RandomState, optional
        For the restarts.
    max_steps : int
        Maximal number of L-BFGS iterations per start; 0 only evaluates the start.
    tolerance : float
        A start is finished when log likelihood per row gains less, relative to its value or to 1.
    on_step : callable, optional
        Called with every :class:`TraceRow`, for progress reports.

    Returns
    -------
    Training
    """
    kernel = covariance.kernel
    began = time.perf_counter()
    held = blocks if isinstance(blocks, Held) else engine.hold(blocks, [float(len(b.y)) ** 3 for b in blocks])
    shapes = (
        held.map(block_shape, None) if isinstance(blocks, Held) else [block_shape(b, None) for b in blocks]
    )
    n_rows, n_outputs = sum(rows for rows, _ in shapes), shapes[0][1]

    def evaluate(theta: np.ndarray) -> BlockLikelihood:
        here = covariance.at(theta)
        terms = held.map(block_likelihood, here)
        value = sum(t.value for t in terms)
        slope = np.sum([t.gradient for t in terms], axis=0)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            raise NotPositiveDefiniteError(
                f"The likelihood is not finite at the hyperparameters {here.kernel}. "
                "Narrow the kernel's bounds, or raise the lower bound of its noise."
            )
        errors = sum(t.loo_error for t in terms)
        return BlockLikelihood(value, slope, errors, sum(t.jitter > 0 for t in terms))

    def run(start: np.ndarray) -> list[TraceRow]:
        trace: list[TraceRow] = []
        evaluated: dict[bytes, BlockLikelihood] = {}

        def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
            evaluated[theta.tobytes()] = here = evaluate(theta)
            return -here.value / n_rows, -here.gradient / n_rows

        def record(theta: np.ndarray) -> None:
            here = evaluated.get(theta.tobytes()) or evaluate(theta)
            evaluated.clear()
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
            if on_step is not None:
                on_step(trace[-1])

        record(start)
        if max_steps > 0 and len(start):
            # The objective is per row, so that the tolerances mean the same for 10^2 and for 10^7 rows.
            # maxls is small: close to singular matrices, jitter makes the likelihood discontinuous, and a
            # line search may not converge.
            options = {"maxiter": max_steps, "ftol": tolerance, "gtol": tolerance, "maxls": 8}
            minimize(
                objective, start, jac=True, method="L-BFGS-B", bounds=kernel.bounds,
                callback=record, options=options,
            )  # fmt: skip
        return trace

    start = kernel.theta
    if max_steps == 0 or len(start) == 0:
        return Training(covariance, run(start))
    low, high = kernel.bounds.T
    start = np.clip(start, low, high)
    traces = [run(start)]
    for _ in range(n_restarts):
        assert random_state is not None
        shift = random_state.uniform(-np.log(10.0), np.log(10.0), size=start.shape)
        traces.append(run(np.clip(start + shift, low, high)))
    best = max(traces, key=lambda trace: trace[-1].log_marginal_likelihood)
    return Training(covariance.at(best[-1].theta), best)


def warn_of_bounds(kernel: Kernel, *, named: bool = False) -> None:
    """Warn of all free hyperparameters that are at a bound, by name, in one warning.

    Parameters
    ----------
    kernel : Kernel
    named : bool
        Whether the bounds are those of a named kernel, which are wide. A length scale at the upper one means
        that the input has no influence, at the lower one that it tells groups of rows apart; a signal
        variance at the lower one, that the inputs do not explain the targets, or what a trend has left of
        them. These are results, and no reason to widen the bounds.
    """
    at_bound = []
    for name, value, bounds in zip(hyperparameter_names(kernel), kernel.theta, kernel.bounds, strict=True):
        for which, bound in zip(("lower", "upper"), bounds, strict=True):
            if named and ("length_scale" in name or ("constant_value" in name and which == "lower")):
                continue
            if np.isclose(value, bound, rtol=0, atol=1e-6) and bounds[0] < bounds[1]:
                at_bound.append(f"{name} = {np.exp(value):.3g} ({which} bound)")
    if at_bound:
        warnings.warn(
            f"These hyperparameters ended at a bound: {', '.join(at_bound)}. The optimum may be outside: "
            "widen the bound in the kernel. A length scale at its upper bound means that the input has no "
            "influence.",
            BoundWarning,
            stacklevel=2,
        )


def warn_of_jitter(name: str) -> None:
    """Warn that the matrices of `name` could only be factorised with jitter."""
    warnings.warn(
        f"{name} needed jitter to be factorised at the trained hyperparameters (see repairs_). The noise is "
        "very small or rows are repeated. Predictions are those of a model with this much more noise; a "
        "WhiteKernel with a larger lower bound avoids the jitter.",
        RepairWarning,
        stacklevel=5,
    )
