"""Training blocks from rows on a cluster: as dense as the rows, whoever holds them."""

from __future__ import annotations

from collections.abc import Iterator

import distributed
import numpy as np
import pytest
from gpexperts.cluster import neighbourhoods
from gpexperts.cluster.neighbourhoods import Neighbourhoods

from gpexperts.engines.dask import DaskEngine
from gpexperts.scaling import Standardizer
from gpexperts.training.blocks import sample_blocks


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    settings = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**settings) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def drawn(client: distributed.Client, X, y, sizes, **wanted):
    """Blocks drawn from a tenth of the rows, which are in blocks of the given sizes."""
    engine = DaskEngine(client.scheduler.address)
    cuts = np.cumsum(sizes)[:-1]
    blocks = [
        engine.task("rows", tuple, [Xb, yb])
        for Xb, yb in zip(np.split(X, cuts), np.split(y, cuts), strict=True)
    ]
    units = Standardizer.fit(X), Standardizer.fit(y)
    Z, t = units[0].transform(X), units[1].transform(y)
    sample = np.random.default_rng(1).choice(len(X), len(X) // 10, replace=False)
    draw = Neighbourhoods(engine, blocks, *units, np.array([False, True]))
    asked = {"n_blocks": 4, "block_size": 25} | wanted
    with client.as_current():
        found = draw(
            Z[sample], t[sample, 1:], np.array([0.2, 5.0]), **asked, random_state=np.random.RandomState(0)
        )
    return Z, t[:, 1:], sample, found


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, [2.0, 0.1], size=(2000, 2))
    return X, np.stack([np.ones(2000), X[:, 0] ** 2], axis=1)


@pytest.mark.parametrize("sizes", [[2000], [0, 10, 990, 0, 1000], [100] * 20])
def test_blocks_are_the_nearest_of_all_rows(client, rows, sizes, monkeypatch) -> None:
    monkeypatch.setattr(neighbourhoods, "FAN_IN", 3)
    Z, t, sample, found = drawn(client, *rows, sizes)
    assert len(found) == 4
    for block in found:
        centre = block.X[0]  # nearest to itself
        assert (Z[sample] == centre).all(axis=1).any()
        nearest = np.argsort((((Z - centre) / [0.2, 5.0]) ** 2).sum(axis=1))[:25]
        np.testing.assert_array_equal(block.X, Z[nearest])
        np.testing.assert_array_equal(block.y, t[nearest])


def test_a_sample_that_is_used_up_is_cut_itself(client, rows) -> None:
    Z, t, sample, found = drawn(client, *rows, [2000], n_blocks=4, block_size=50)
    own = sample_blocks(
        Z[sample], t[sample], np.array([0.2, 5.0]), n_blocks=4, block_size=50,
        random_state=np.random.RandomState(0),
    )  # fmt: skip
    for ours, theirs in zip(found, own, strict=True):
        np.testing.assert_array_equal(ours.X, theirs.X)
