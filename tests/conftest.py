"""Fixtures for all tests."""

from __future__ import annotations

import os

if "PYTEST_XDIST_WORKER" in os.environ:  # before NumPy: test processes would compete for the cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.browser import FLAGS, chromium
from tests.problems import Problem, random_problem

# Deadlines measure the machine, not the code; a failing example is always the same one.
settings.register_profile("gpexperts", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("gpexperts")

# The paper's data sets may lie beside the checkout.
if (beside := Path(__file__).resolve().parents[2] / "shared" / "data").is_dir():
    os.environ.setdefault("GPEXPERTS_DATA", str(beside))


@pytest.fixture
def problem() -> Problem:
    """80 rows, four experts, a dozen queries inside and outside of the data."""
    return random_problem(0)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A Dask cluster whose workers are threads of this process."""
    from tests.clusters import in_process_client  # late: Dask is a slow import

    with in_process_client() as client:
        yield client


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Where the paper's data sets lie; tests that read them are skipped where they do not."""
    folder = Path(os.environ.get("GPEXPERTS_DATA", "nowhere"))
    if not folder.is_dir():
        pytest.skip(f"the paper's data sets are not here: {folder} is no folder; set GPEXPERTS_DATA")
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser, if one is installed."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium found: pages were not tested in a browser (apt-get install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()
