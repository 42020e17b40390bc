"""Says in the report that tests of federations were skipped."""

from __future__ import annotations

import importlib.util

import pytest


@pytest.mark.skipif(
    importlib.util.find_spec("flwr") is None, reason="Flower is not installed; `make test-federated` has it"
)
def test_flower_is_installed() -> None:
    from gpexperts.federated import FederatedGPRegressor

    assert FederatedGPRegressor().get_params()["min_clients"] == 3
