"""A browser, if one is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import FLAGS, chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = chromium()
    if path is None:
        pytest.skip("no Chromium found: the report was not tested in a browser (apt-get install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()
