"""Fixtures for all tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from tests.problems import Problem, random_problem

# Deadlines measure the machine, not the code; a failing example is always the same one.
settings.register_profile("gpexperts", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("gpexperts")


@pytest.fixture
def problem() -> Problem:
    """80 rows, four experts, a dozen queries inside and outside of the data."""
    return random_problem(0)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Where the paper's data sets lie: $GPEXPERTS_DATA, or ../shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("GPEXPERTS_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"the paper's data sets are not here: {folder} is no folder; set GPEXPERTS_DATA")
    return folder


@pytest.fixture(scope="session")
def load_data(data_folder: Path) -> Callable[[str], dict[str, np.ndarray]]:
    """Read one data set by name."""

    def load(name: str) -> dict[str, np.ndarray]:
        path = data_folder / f"{name}.npz"
        if not path.is_file():
            pytest.skip(f"{path} is not here")
        with np.load(path) as arrays:
            return dict(arrays)

    return load
