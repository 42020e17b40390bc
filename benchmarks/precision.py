"""Single precision and low-rank blocks in the pair stage of NPAE: gain and cost.

    python benchmarks/precision.py              # concrete to sarcos
    python benchmarks/precision.py --data pol

For the experts and queries of a default fit: the pair stage with its two products in double and in single
precision (kernel values in double), the largest change of a predicted mean and standard deviation in units of
the signal's standard deviation, the time, and the numerical rank of the blocks k(X_i, X_j). A factored
block is cheaper only if its rank is well below half of its rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

import common

DATA = ("concrete", "airfoil", "parkinsons", "pumadyn32nm", "pol", "protein", "sarcos")
RANK_TOLERANCE = 1e-6


@contextmanager
def in_single_precision() -> Iterator[None]:
    """Compute the pair stage in single precision inside this block."""
    from gpexperts.experts import gather
    from gpexperts.kernels.base import Covariance

    double = gather.pair_covariance

    def single(
        covariance: Covariance, X_i: np.ndarray, X_j: np.ndarray, q_i: np.ndarray, q_j: np.ndarray
    ) -> np.ndarray:
        product = q_i.astype(np.float32) @ covariance(X_i, X_j).astype(np.float32)
        return np.einsum("nm,nm->n", product, q_j.astype(np.float32)).astype(float)

    gather.pair_covariance = single
    try:
        yield
    finally:
        gather.pair_covariance = double


def one(data: str) -> None:
    """Fit once, predict in both precisions, compute the rank of some blocks; print a line of JSON."""
    from gpexperts import DistributedGPRegressor
    from gpexperts.paper.datasets import split

    X, y, X_test, _ = split(data)
    size = min(400, len(X) // 6)  # at least six experts, also where the default is the exact GP
    model = DistributedGPRegressor(expert_size=size, n_selected=5, n_neighbors=0, random_state=0).fit(X, y)
    fitted = model.model_
    signal = float(np.mean(fitted.covariance.prior_variance(fitted.centroids)))
    scale = float(np.sqrt(signal) * fitted.y_scale.scale[0])
    X_test = X_test[:3000]
    model.predict(X_test, return_std=True)  # computes the factors of the experts
    (mean, std), _, double_cpu = common.timed(lambda: model.predict(X_test, return_std=True, latent=True))
    with in_single_precision():
        (mean_1, std_1), _, single_cpu = common.timed(
            lambda: model.predict(X_test, return_std=True, latent=True)
        )
    selected = model.select(X_test[:40])
    ranks = []
    for i, j in {tuple(sorted(pair)) for pair in selected[:, :2] if min(pair) >= 0}:
        block = fitted.covariance(fitted.experts.rows(i)[0], fitted.experts.rows(j)[0])
        values = np.linalg.svd(block, compute_uv=False)
        ranks.append(int((values > RANK_TOLERANCE * values[0]).sum()) / len(values))
    result = {
        "kernel": model.choices_["kernel"].value,
        "mean_error": float(np.abs(mean_1 - mean).max()) / scale,
        "std_error": float(np.abs(std_1 - std).max()) / scale,
        "double_cpu": double_cpu,
        "single_cpu": single_cpu,
        "rank_share": float(np.median(ranks)) if ranks else float("nan"),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    common.run_grid("precision", __doc__, one, {"data": DATA}, repeat=True)
