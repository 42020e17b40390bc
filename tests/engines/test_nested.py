"""joblib's private word on nested workers: this test fails first when it changes."""

from __future__ import annotations

import joblib
import pytest

from gpexperts.engines.nested import is_nested
from gpexperts.engines.threads import usable_workers


def test_a_worker_of_joblib_knows_that_it_is_one() -> None:
    assert not is_nested()
    found = joblib.Parallel(n_jobs=2, backend="threading")(joblib.delayed(is_nested)() for _ in range(4))
    assert found == [True] * 4


def test_without_that_word_all_cores_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(joblib.parallel, "get_active_backend")
    assert not is_nested()
    assert usable_workers(None) == joblib.cpu_count()
