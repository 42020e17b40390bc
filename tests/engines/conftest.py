"""A Dask cluster of two worker processes for all tests of engines."""

from __future__ import annotations

from collections.abc import Iterator

import distributed
import pytest

from tests.clusters import process_client


@pytest.fixture(scope="package")
def client() -> Iterator[distributed.Client]:
    """Ended before the tests of other folders: idle workers take several percent of a core each."""
    with process_client(2) as client:
        yield client
