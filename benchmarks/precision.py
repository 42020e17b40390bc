"""Would single precision or low-rank blocks pay in NPAE's pair stage? What they gain, and what they cost.

    python benchmarks/precision.py              # concrete to sarcos
    python benchmarks/precision.py --data pol

For the experts and the queries of a default fit: the pair stage with its blocks k(X_i, X_j) in double and in
single precision (distances in double, the kernel's profile and both products in single), the largest change
of a predicted mean and standard deviation in units of the signal's, the time, and the numerical rank of the
blocks: a block pays in factored form only if its rank is well below half of its rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import common

DATA = ("concrete", "airfoil", "parkinsons", "pumadyn32nm", "pol", "protein", "sarcos")
RANK_TOLERANCE = 1e-6


@contextmanager
def in_single_precision() -> Iterator[None]:
    """Let the pair stage work in single precision inside."""
    from gpexperts.experts import stationary
    from gpexperts.experts.local import Experts

    double, distances = Experts.pair_covariance, stationary._squared_distances

    def single(self: Any, i: int, j: int, q_i: np.ndarray, q_j: np.ndarray) -> np.ndarray:
        covariance = self.covariance
        scale = covariance.metric(np.ones(self.X.shape[1]))
        X, Z = self.rows(i)[0] / scale, self.rows(j)[0] / scale
        centre = Z.mean(axis=0)
        sq = distances(X - centre, Z - centre).astype(np.float32)
        cross = covariance._profile.correlation(sq, covariance._alpha)
        cross *= np.float32(covariance.signal_variance)
        product = q_i.astype(np.float32) @ cross
        return np.einsum("nm,nm->n", product, q_j.astype(np.float32)).astype(float)

    Experts.pair_covariance = single  # type: ignore[method-assign]
    try:
        yield
    finally:
        Experts.pair_covariance = double  # type: ignore[method-assign]


def one(data: str) -> None:
    """Fit once, predict in both precisions, look at some blocks; print a line of JSON."""
    from gpexperts import DistributedGPRegressor
    from gpexperts.paper.datasets import split

    X, y, X_test, _ = split(data)
    size = min(400, len(X) // 6)  # at least six experts, also where the default is the exact GP
    model = DistributedGPRegressor(expert_size=size, n_selected=5, random_state=0).fit(X, y)
    scale = float(np.sqrt(model._experts.covariance.signal_variance) * model._y_scale.scale[0])
    X_test = X_test[:3000]
    model.predict(X_test, return_std=True)  # the experts' factors are there from now on
    (mean, std), _, double_cpu = common.timed(lambda: model.predict(X_test, return_std=True, latent=True))
    with in_single_precision():
        (mean_1, std_1), _, single_cpu = common.timed(
            lambda: model.predict(X_test, return_std=True, latent=True)
        )
    asked = model.select(X_test[:40])
    ranks = []
    for i, j in {tuple(sorted(pair)) for pair in asked[:, :2] if min(pair) >= 0}:
        experts = model._experts
        values = np.linalg.svd(experts.covariance(experts.rows(i)[0], experts.rows(j)[0]), compute_uv=False)
        ranks.append(int((values > RANK_TOLERANCE * values[0]).sum()) / len(values))
    result = {
        "kernel": model.choices_["kernel"],
        "mean_error": float(np.abs(mean_1 - mean).max()) / scale,
        "std_error": float(np.abs(std_1 - std).max()) / scale,
        "double_cpu": double_cpu,
        "single_cpu": single_cpu,
        "rank_share": float(np.median(ranks)) if ranks else float("nan"),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    common.run_grid("precision", __doc__, one, {"data": DATA}, repeat=True)
