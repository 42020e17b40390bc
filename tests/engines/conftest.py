"""A Dask cluster of three worker processes for all tests of engines."""

from __future__ import annotations

from collections.abc import Iterator

import distributed
import pytest

from tests.clusters import process_client


@pytest.fixture(scope="session")
def client() -> Iterator[distributed.Client]:
    with process_client(3) as client:
        yield client
