"""Training whose cost grows with the accuracy wanted, not with the number of rows.

    stage 1   few blocks, standardised inputs: a first guess of the length scales
    stage 2   blocks cut in the metric just learned: which kernel?  (the likelihood of the same rows decides)
    stage 3…  new blocks in the newest metric, until nothing is gained

Neighbours in the learned metric are the rows that matter to each other, so that each stage trains on
better blocks than the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from gpexperts.engines.base import Engine
from gpexperts.experts.blocks import sample_blocks
from gpexperts.experts.kernels import Covariance, covariance_of
from gpexperts.experts.training import Block, TraceRow, Training, maximise_likelihood

__all__ = ["StagedTraining", "train_in_stages"]

FIRST_BLOCKS = 30, 200
CHOICE_BLOCKS = 60, 200
FINAL_BLOCKS = 20, 500
"""Number of blocks and rows in each, of stage 1, of stage 2 and of the later ones."""
EXACT = 1500
"""Up to this many rows the last stage is the exact likelihood of all of them."""
MAX_STAGES = 5
SETTLED = 0.01
"""Gain in log likelihood per row below which a further stage is not worth its time."""
TIE = 0.003
"""Log likelihoods per row closer than this do not tell kernels apart."""
NOISE_AT_START = 0.05
"""Each stage starts with at least this share of noise: from much less, the gradient of its logarithm
vanishes and the optimiser would stay in a noise-free corner it was led into by poor blocks."""


class StagedTraining(NamedTuple):
    """What training on blocks found."""

    covariance: Covariance
    trace: list[TraceRow]
    """The steps of the chosen kernel, stage after stage."""
    choice: str
    """The name of the chosen kernel."""
    evidence: dict[str, Any]
    """``"kernels"``: the `Evidence` for each; ``"stages"``: log likelihood per row, stage by stage."""


def train_in_stages(
    candidates: dict[str, Kernel],
    X: np.ndarray,
    y: np.ndarray,
    engine: Engine,
    *,
    random_state: np.random.RandomState,
    n_restarts: int = 0,
    trainable: bool = True,
    on_step: Callable[[TraceRow], None] | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> StagedTraining:
    """Choose among kernels and train the chosen one, on blocks.

    Parameters
    ----------
    candidates : dict of str to Kernel
        Kernels to choose from, with equal hyperparameters; the first one learns the first metric.
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, p)
    engine : Engine
    random_state : RandomState
    n_restarts : int
        Further starts of the first stage.
    trainable : bool
        False only evaluates the first candidate where it starts.
    on_step, say : callable
        For progress reports.
    """
    d = X.shape[1]
    final_blocks = (1, len(X)) if len(X) <= EXACT else FINAL_BLOCKS
    trace: list[TraceRow] = []
    stages: list[float] = []

    def draw(scale: np.ndarray, n_blocks: int, block_size: int) -> list[Block]:
        return sample_blocks(X, y, scale, n_blocks=n_blocks, block_size=block_size, random_state=random_state)

    def train(
        kernel: Kernel, blocks: list[Block], max_steps: int, tolerance: float, restarts: int = 0
    ) -> Training:
        return maximise_likelihood(
            covariance_of(kernel),
            blocks,
            engine,
            n_restarts=restarts,
            random_state=random_state,
            max_steps=max_steps,
            tolerance=tolerance,
            on_step=on_step,
        )

    choice, start = next(iter(candidates.items()))
    if not trainable or start.n_dims == 0:
        only = train(start, draw(np.ones(d), *FINAL_BLOCKS), 0, 1e-5)
        return StagedTraining(only.covariance, only.trace, choice, {})
    first = train(start, draw(np.ones(d), *FIRST_BLOCKS), 40, 1e-4, n_restarts)
    best = first.covariance
    evidence: dict[str, Evidence] = {}
    trace += first.trace
    for stage in range(2, MAX_STAGES + 1):
        blocks = draw(best.length_scale(d), *(CHOICE_BLOCKS if stage == 2 else final_blocks))
        n_rows = sum(len(block.y) for block in blocks)
        before = -np.inf
        if stage == 2:
            theta = best.kernel.theta
            found = {
                name: train(_noisier(kernel.clone_with_theta(theta), float(y.var())), blocks, 25, 1e-4)
                for name, kernel in candidates.items()
            }
            evidence = {name: _evidence(t, n_rows) for name, t in found.items()}
            choice = _best_kernel(evidence)
            listed = ", ".join(f"{name} {value:.4f}" for name, (value, _) in evidence.items())
            say(f"{choice} by the log likelihood per row of the same {len(blocks)} blocks: {listed}")
            training = found[choice]
        else:
            training = train(best.kernel, blocks, 60, 1e-5)
            before = training.trace[0].log_marginal_likelihood / n_rows
        after = training.trace[-1].log_marginal_likelihood / n_rows
        best = training.covariance
        trace += _continued(training.trace, trace[-1])
        stages.append(after)
        if stage > 2:
            say(f"stage {stage}: {before:.4f} → {after:.4f} nats per row on {len(blocks)} new blocks")
        if after - before < SETTLED or (stage > 2 and len(blocks) == 1):
            break
    return StagedTraining(best, trace, choice, {"kernels": evidence, "stages": stages})


class Evidence(NamedTuple):
    """What speaks for a kernel."""

    log_likelihood: float
    """Per row, after a short training on the same blocks."""
    loo_error: float
    """Mean squared error of each row predicted from the others of its block."""


def _evidence(training: Training, n_rows: int) -> Evidence:
    last = training.trace[-1]
    return Evidence(last.log_marginal_likelihood / n_rows, last.loo_error)


def _best_kernel(evidence: dict[str, Evidence]) -> str:
    """The most likely kernel; among those that are as likely, the one with the smallest error."""
    top = max(e.log_likelihood for e in evidence.values())
    tied = [name for name, e in evidence.items() if e.log_likelihood >= top - TIE]
    return min(tied, key=lambda name: evidence[name].loo_error)


def _noisier(kernel: Kernel, variance: float) -> Kernel:
    """Return the kernel with its free noise raised to at least `NOISE_AT_START` of `variance`."""
    params = kernel.get_params()
    raised = {}
    for name, value in params.items():
        bounds = params.get(f"{name}_bounds")
        if name.endswith("noise_level") and not isinstance(bounds, str):
            raised[name] = float(np.clip(max(value, NOISE_AT_START * variance), *np.ravel(bounds)))
    return kernel.set_params(**raised)


def _continued(trace: list[TraceRow], last: TraceRow) -> list[TraceRow]:
    """Number and time the rows of a later stage on from those of the one before."""
    return [row._replace(step=last.step + 1 + row.step, seconds=last.seconds + row.seconds) for row in trace]
