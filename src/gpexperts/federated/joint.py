"""Joint training of θ: the library's optimiser, on likelihoods that are sums over clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gpexperts.engines import Held, ThreadEngine
from gpexperts.federated.local import covariance_named, is_length, unmixed
from gpexperts.federated.privacy import Privacy
from gpexperts.federated.sums import Sums
from gpexperts.kernels.base import Covariance
from gpexperts.training.likelihood import Block, BlockLikelihood, TraceRow, block_shape, maximise_likelihood

__all__ = ["Joint", "ascend", "maximise_jointly", "start_of"]

TOLERANCE = 1e-4
"""Of the log likelihood per row: steps that gain less are not worth a round."""
FIRST_STEP, LAST_STEP = 1.0, 0.2
"""Of the ascent along noisy gradients, in logarithms."""


class Joint(NamedTuple):
    """The result of joint training."""

    kernel: str
    """Its name."""
    covariance: Covariance
    trace: list[TraceRow]
    n_sums: int
    """Likelihoods that were summed."""


class _Stop(Exception):
    """No further sum is to be asked for."""


class _Changed(Exception):
    """A client has vanished: the likelihood is another one from here on."""


class _JointBlocks(Held[Block]):
    """The training blocks of all clients, as `maximise_likelihood` uses blocks.

    Parameters
    ----------
    sums : Sums
    kernel : str
    n_outputs : int
    max_sums : int
    """

    def __init__(self, sums: Sums, kernel: str, n_outputs: int, max_sums: int) -> None:
        self.sums, self.kernel, self.n_outputs, self.left = sums, kernel, n_outputs, max_sums
        self.found: list[tuple[np.ndarray, BlockLikelihood]] = []
        """θ and likelihood, since the members last changed."""
        self.members: list[int] = []
        self.n_rows = 0

    def map(self, function: Callable[[Block, Any], Any], argument: Any) -> list[Any]:
        if function is block_shape:
            return [(self.n_rows, self.n_outputs)]
        return [self.at(argument.kernel.theta)]

    def at(self, theta: np.ndarray) -> BlockLikelihood:
        """Return the sum of the likelihoods at θ."""
        for known, likelihood in self.found:
            if np.array_equal(known, theta):
                return likelihood
        if self.left == 0:
            raise _Stop
        self.left -= 1
        values = {"kernel": self.kernel}
        n, value, loo, jittered, *gradient = self.sums.total(
            "likelihood", 4 + len(theta), values, {"theta": theta}
        ).values
        members = list(self.sums.federation.members)
        changed = bool(self.found) and members != self.members
        if changed or not self.found:
            self.members, self.n_rows, self.found = members, int(n), []
        likelihood = BlockLikelihood(float(value), np.array(gradient), float(loo), float(jittered))
        self.found.append((theta.copy(), likelihood))
        if changed:
            raise _Changed
        return likelihood

    @property
    def best(self) -> np.ndarray:
        """θ with the largest likelihood among comparable ones."""
        return max(self.found, key=lambda pair: pair[1].value)[0]


def start_of(
    sums: Sums, kernels: list[str], values: dict[str, Any], units: dict[str, np.ndarray], d: int, noisy: bool
) -> tuple[Covariance, str, dict[str, float]]:
    """Have every client train alone; return the kernel with the best mean score, its mean θ, and all scores.

    Parameters
    ----------
    sums : Sums
    kernels : list of str
    values : dict
        Of the message.
    units : dict of str to ndarray
    d : int
        Inputs.
    noisy : bool
        Whether only the first kernel is used, with noise on its θ.
    """
    covariances = {name: covariance_named(name, d) for name in kernels}
    k = len(covariances[kernels[0]].kernel.theta)
    values = {**values, "kernels": kernels}
    if noisy:
        n, *shift = sums.total("start", 1 + k, values, units).values
        name = kernels[0]
        theta = covariances[name].kernel.theta + np.array(shift) / n
        return _within(covariances[name], theta), name, {}
    n, *rest = sums.total("start", 1 + len(kernels) * (1 + k), values, units).values
    table = np.reshape(rest, (len(kernels), 1 + k)) / n
    scores = {name: float(score) for name, score in zip(kernels, table[:, 0], strict=True)}
    name = max(scores, key=scores.__getitem__)
    theta = unmixed(table[kernels.index(name), 1:], is_length(name, d))
    return _within(covariances[name], theta), name, scores


def _within(covariance: Covariance, theta: np.ndarray) -> Covariance:
    return covariance.at(np.clip(theta, *covariance.kernel.bounds.T))


def maximise_jointly(start: Covariance, kernel: str, sums: Sums, *, n_outputs: int, max_sums: int) -> Joint:
    """Maximise the sum of the clients' likelihoods with at most `max_sums` evaluations.

    Where a client vanishes, the optimiser starts again at the last θ, on the likelihood of the others.
    """
    blocks = _JointBlocks(sums, kernel, n_outputs, max_sums)
    trace: list[TraceRow] = []
    covariance = start
    finished = max_sums == 0
    while not finished:
        try:
            blocks.at(covariance.kernel.theta)
            maximise_likelihood(
                covariance,
                blocks,
                ThreadEngine(1),
                max_steps=max_sums,
                tolerance=TOLERANCE,
                on_step=lambda row: trace.append(row._replace(step=len(trace))),
            )
            finished = True
        except _Stop:
            finished = True
        except _Changed:
            covariance = start.at(blocks.found[-1][0])
    if not blocks.found:
        nan = float("nan")
        return Joint(kernel, start, [TraceRow(0, nan, nan, nan, 0, 0.0, start.kernel.theta)], 0)
    return Joint(kernel, start.at(blocks.best), trace, max_sums - blocks.left)


def ascend(
    start: Covariance, kernel: str, sums: Sums, values: dict[str, Any], privacy: Privacy, n_steps: int
) -> Joint:
    """Follow noisy gradients, with steps that become smaller; the result is the mean of the second half."""
    theta, visited = start.kernel.theta, []
    bounds = start.kernel.bounds.T
    trace = []
    for t in range(n_steps):
        n, *total = sums.total(
            "likelihood", 1 + len(theta), {**values, "kernel": kernel}, {"theta": theta}
        ).values
        gradient = np.array(total) / n
        length = FIRST_STEP * (LAST_STEP / FIRST_STEP) ** (t / max(1, n_steps - 1))
        theta = np.clip(theta + length * gradient / privacy.clip, *bounds)
        visited.append(theta)
        size = float(np.abs(gradient).max())
        trace.append(TraceRow(t, float("nan"), size, float("nan"), 0, 0.0, theta))
    mean = np.mean(visited[n_steps // 2 :], axis=0)
    return Joint(kernel, start.at(mean), trace, n_steps)
