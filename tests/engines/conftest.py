"""A Dask cluster of three worker processes for all tests of engines."""

from __future__ import annotations

from collections.abc import Iterator

import distributed
import pytest


def start_cluster(n_workers: int) -> distributed.LocalCluster:
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, memory_limit="500MB", dashboard_address=":0"
    )


@pytest.fixture(scope="session")
def client() -> Iterator[distributed.Client]:
    with start_cluster(3) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client
