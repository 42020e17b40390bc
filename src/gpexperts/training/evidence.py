"""How kernels are compared: by log likelihood, or density, and leave-one-out error of the same rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpexperts.choices import margins
from gpexperts.training.likelihood import Block, Training

__all__ = ["CLIPPED", "Evidence", "as_dicts", "evidence_of", "listed", "n_rows", "reason_of"]

CLIPPED = 12.0
"""Bound of standardised errors where kernels and trends are compared by rows given their neighbours: a single
row with a gross error in its target must not decide."""


class Evidence(NamedTuple):
    """Scores of a kernel on the same blocks, or predicted rows."""

    log_likelihood: float
    """Per row."""
    loo_error: float
    """Mean squared error of each row predicted from the others of its block."""

    @property
    def score(self) -> float:
        """The mean of log likelihood and −½ log of the error, in nats per row, by which kernels are compared.

        For the right kernel the two agree. For a wrong one, the variance can be corrected later by held-out
        log density, but not the mean.
        """
        return 0.5 * (self.log_likelihood - 0.5 * float(np.log(max(self.loo_error, np.finfo(float).tiny))))


def evidence_of(training: Training, blocks: list[Block]) -> Evidence:
    """Return the scores at the end of a training on these blocks."""
    last = training.trace[-1]
    return Evidence(last.log_marginal_likelihood / n_rows(blocks), last.loo_error)


def n_rows(blocks: list[Block]) -> float:
    """Number of rows of all blocks, each counted by its weight."""
    return sum(block.total_weight for block in blocks)


def listed(evidence: dict[str, Evidence], blocks: list[Block]) -> str:
    """Return the scores of several kernels as a text."""
    scores = ", ".join(f"{name} {e.log_likelihood:.4f} ({e.loo_error:.4f})" for name, e in evidence.items())
    return f"by log likelihood per row (leave-one-out error) of the same {len(blocks)} blocks: {scores}"


def as_dicts(evidence: dict[str, Evidence]) -> dict[str, dict[str, float]]:
    """Return the scores of several kernels as plain numbers."""
    return {name: {**e._asdict(), "score": e.score} for name, e in evidence.items()}


def reason_of(choice: str, evidence: dict[str, Evidence]) -> str:
    """Return why a kernel was chosen."""
    others = margins(choice, {name: -e.score for name, e in evidence.items()})
    score = f"score {evidence[choice].score:.4f} per row of the training blocks"
    return f"{score}, {others}" if others else score
