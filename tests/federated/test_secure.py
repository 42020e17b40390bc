"""The arithmetic of secure sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flwr.supercore.primitives.asymmetric import (
    generate_key_pairs,
    private_key_to_bytes,
    public_key_to_bytes,
)
from hypothesis import given
from hypothesis import strategies as st

from gpexperts.federated import secure

NUMBERS = st.lists(st.floats(-1e50, 1e50).filter(lambda x: x == 0 or abs(x) > 1e-50), min_size=3, max_size=3)


@given(st.lists(NUMBERS, min_size=2, max_size=5))
def test_sums_are_exact(vectors: list[list[float]]) -> None:
    total = secure.decode(secure.add([secure.encode(vector) for vector in vectors]))
    assert total == [sum(map(Fraction, column)) for column in zip(*vectors, strict=True)]


@pytest.fixture(scope="module")
def keys() -> dict[int, tuple[bytes, bytes]]:
    pairs = {node: generate_key_pairs() for node in (3, 5, 2**63 + 7, 11)}
    return {n: (private_key_to_bytes(a), public_key_to_bytes(b)) for n, (a, b) in pairs.items()}


def masked_vectors(
    keys: dict[int, tuple[bytes, bytes]], vectors: dict[int, list[float]]
) -> tuple[dict[int, bytes], dict[int, bytes]]:
    own = {node: bytes([i]) * 32 for i, node in enumerate(keys, start=1)}
    masked = {}
    for node, (private, _) in keys.items():
        seeds = {
            other: secure.pair_seed(private, public, "sum 1")
            for other, (_, public) in keys.items()
            if other != node
        }
        masked[node] = secure.masked(secure.encode(vectors[node]), own[node], node, seeds)
    return masked, own


@pytest.mark.parametrize("gone", [(), (3,), (5, 2**63 + 7)])
def test_masks_cancel_for_those_who_are_there(keys: dict[int, tuple[bytes, bytes]], gone: tuple) -> None:
    vectors = {node: [float(node % 13), -0.1 * i, 1e-20] for i, node in enumerate(keys)}
    masked, own = masked_vectors(keys, vectors)
    there = [node for node in keys if node not in gone]
    lost = {
        node: {other: secure.pair_seed(keys[node][0], keys[other][1], "sum 1") for other in gone}
        for node in there
    }
    total = secure.unmasked({n: masked[n] for n in there}, {n: own[n] for n in there}, lost)
    np.testing.assert_allclose(
        [float(v) for v in total], np.sum([vectors[n] for n in there], axis=0), rtol=1e-15, atol=1e-30
    )


def test_one_masked_vector_is_noise_without_its_own_seed(keys: dict[int, tuple[bytes, bytes]]) -> None:
    """Even if all pair seeds of a late reply are given away, its own mask hides it."""
    masked, own = masked_vectors(keys, {node: [1.0, 2.0, 3.0] for node in keys})
    node, *others = keys
    pairs = {o: secure.pair_seed(keys[node][0], keys[o][1], "sum 1") for o in others}
    opened = secure.unmasked({node: masked[node]}, {node: own[node]}, {node: pairs})
    assert [float(v) for v in opened] == [1.0, 2.0, 3.0]
    hidden = secure.unmasked({node: masked[node]}, {node: bytes(32)}, {node: pairs})
    assert all(abs(v) > 1e30 for v in hidden)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e70])
def test_numbers_that_cannot_be_summed_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="secure sum"):
        secure.encode([1.0, value])


def test_tags_tell_equal_rows_in_any_order_and_nothing_else(keys: dict[int, tuple[bytes, bytes]]) -> None:
    rng = np.random.default_rng(0)
    X, y, order = rng.normal(size=(9, 2)), rng.normal(size=(9, 1)), rng.permutation(9)
    (a, A), (b, B), (c, C), _ = keys.values()
    tag = secure.row_tag(a, B, "rows", X, y)
    assert tag == secure.row_tag(b, A, "rows", X[order], y[order])
    assert tag != secure.row_tag(b, A, "rows", X, y + 1e-9)
    assert tag != secure.row_tag(c, C, "rows", X, y)
