"""Workers that are paused, stopped, killed or moved during a fit or a prediction (`moving`)."""

from __future__ import annotations

import pytest

from tests.robustness.moving import OPERATIONS, SCENARIOS, tried

ROUNDS = 20


@pytest.mark.slow
@pytest.mark.timeout(20 * 300)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_right_answers_or_a_clear_error_within_a_minute(scenario: str, operation: str) -> None:
    rounds = [tried(scenario, operation) for _ in range(ROUNDS)]
    assert [r for r in rounds if r.end not in ("right", "error")] == []
