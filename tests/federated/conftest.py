"""Tests of federations need Flower; without it, they are skipped."""

from __future__ import annotations

import importlib.util
import os
import warnings

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

if importlib.util.find_spec("flwr") is not None:
    # Flower needs an older typer, which uses names that click has deprecated.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import flwr  # noqa: F401


def pytest_ignore_collect(collection_path: os.PathLike[str]) -> bool | None:
    """Modules that import Flower cannot be collected without it; one test says so."""
    here = importlib.util.find_spec("flwr") is not None
    return None if here or os.fspath(collection_path).endswith("test_installed.py") else True
