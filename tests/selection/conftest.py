"""Experts for the tests of selectors."""

from __future__ import annotations

import numpy as np
import pytest

from gpexperts.selection import ExpertsView


@pytest.fixture
def view() -> ExpertsView:
    """Five well separated parts of 30 rows; the means of expert 4 are unrelated to those of the others."""
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [6, 0], [0, 6], [6, 6], [3, 12]], dtype=float)
    labels = np.repeat(np.arange(5), 30)
    X = centres[labels] + rng.normal(size=(150, 2))
    centroids = np.stack([X[labels == i].mean(axis=0) for i in range(5)])

    def means_at(Z: np.ndarray) -> np.ndarray:
        wave = np.sin(Z.sum(axis=1))
        noise = np.random.default_rng(len(Z)).normal(size=(len(Z), 5))
        return np.stack([wave, wave, wave, wave, 0 * wave], axis=1) + noise * [0.1, 0.3, 0.6, 0.9, 1.0]

    return ExpertsView(
        X=X, labels=labels, centroids=centroids, length_scale=np.array([0.2, 50.0]), means_at=means_at,
        transform=lambda Z: np.asarray(Z) / 2.0, random_state=np.random.RandomState(0),
    )  # fmt: skip


@pytest.fixture
def queries() -> np.ndarray:
    return np.random.default_rng(1).uniform(-2, 14, size=(40, 2))
