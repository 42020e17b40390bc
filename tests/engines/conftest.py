"""A Dask cluster of three worker processes for all tests of engines."""

from __future__ import annotations

from collections.abc import Iterator

import distributed
import pytest

from tests.clusters import LIMIT, process_client

_N_WORKERS = 3


@pytest.fixture(scope="session")
def cluster_client() -> Iterator[distributed.Client]:
    with process_client(_N_WORKERS) as client:
        yield client


@pytest.fixture
def client(cluster_client: distributed.Client) -> distributed.Client:
    """All workers are there: one that another test has killed takes a while to start on a busy machine."""
    cluster_client.wait_for_workers(_N_WORKERS, timeout=LIMIT)
    return cluster_client
