"""The service keeps to its OpenAPI description, whatever is sent (Schemathesis)."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from starlette.testclient import TestClient

from gpexperts.serve import create_app
from tests.serve.conftest import ROW

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis.specs.openapi.checks import positive_data_acceptance
import hypothesis


def tried(model: Any, n: int) -> int:
    """Send generated requests to all operations and check the answers; return the number of requests."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(model))
    count = 0
    for result in schema.get_all_operations():
        operation = result.ok()

        @hypothesis.given(case=operation.as_strategy())
        @hypothesis.settings(
            max_examples=n, deadline=None, database=None, derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        )  # fmt: skip
        def check(case: Any) -> None:
            nonlocal count
            count += 1
            response = case.call()
            # A schema cannot describe a calendar, nor that a row needs a value: some requests get a 422.
            case.validate_response(response, excluded_checks=[positive_data_acceptance])
            assert response.status_code < 500

        check()
    return count


@pytest.mark.filterwarnings("ignore")
def test_no_generated_request_gives_a_server_error(model: Any) -> None:
    assert tried(model, 10) >= 5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_request_of_many_gives_a_server_error(model: Any) -> None:
    assert tried(model, 500) >= 500


def test_the_example_of_the_description_is_accepted(client: TestClient) -> None:
    description = client.get("/openapi.json").json()
    assert set(description["paths"]) == {"/predict", "/explain", "/health", "/metrics", "/openapi.json"}
    example = description["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"][
        "example"
    ]
    assert set(example["rows"][0]) == set(ROW)
    assert client.post("/predict", json=example).status_code == 200
