"""A Dask cluster of two worker processes for all tests of engines."""

from __future__ import annotations

from collections.abc import Iterator

import distributed
import pytest

from tests.clusters import LIMIT, process_client

N_WORKERS = 2


@pytest.fixture(scope="package")
def cluster_client() -> Iterator[distributed.Client]:
    """Ended before the tests of other folders: idle workers take several percent of a core each."""
    with process_client(N_WORKERS) as client:
        yield client


@pytest.fixture
def client(cluster_client: distributed.Client) -> distributed.Client:
    """All workers are there: one that another test has killed takes a while to start on a busy machine."""
    cluster_client.wait_for_workers(N_WORKERS, timeout=LIMIT)
    return cluster_client
