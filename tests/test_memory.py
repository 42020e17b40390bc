"""Sizes in bytes. Fits beyond their budget are in robustness/test_load.py."""

from __future__ import annotations

import numpy as np
import pytest

from gpexperts.memory import bytes_of, check_memory, readable_size, usable_memory


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GiB", 4 * 1024**3), ("500 MB", 500_000_000), ("1.5gb", 1_500_000_000), ("2000000", 2_000_000),
     (3_000_000, 3_000_000), (np.int64(3_000_000), 3_000_000), (" 1 MiB ", 1024**2), ("2 tb", 2 * 10**12)],
)  # fmt: skip
def test_sizes_are_read(text, size: int) -> None:
    assert bytes_of(text) == size


def test_the_automatic_budget_is_a_quarter_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_memory() > 64 * 1024**2
    monkeypatch.setattr("gpexperts.memory.usable_memory", lambda: 8 * 1024**3)
    assert bytes_of("auto") == 2 * 1024**3
    monkeypatch.setattr("gpexperts.memory.usable_memory", lambda: 100 * 1024**2)
    assert bytes_of("auto") == 64 * 1024**2


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(999, "999 bytes"), (12_345_678, "12.3 MB"), (5 * 10**12, "5000.0 GB")]
)
def test_sizes_are_written(n_bytes: int, text: str) -> None:
    assert readable_size(n_bytes) == text


def test_the_memory_of_a_worker_is_a_limit_too() -> None:
    needs = {"n": 2000, "expert_rows": 2000, "block_rows": 100, "full": False}
    check_memory("1GB", **needs, there=32_000_000)
    with pytest.raises(
        ValueError, match=r"the smallest worker has 31\.0 MB.*workers with at least 32,000,000"
    ):
        check_memory("1GB", **needs, there=31_000_000)
