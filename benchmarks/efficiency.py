"""Speed of training and of the pair stage of NPAE, relative to that of matrix products.

Run it as `python benchmarks/efficiency.py` on a quiet machine. Counted operations:
m³ for a training block (factor and inverse), 2 m² per query and pair for the pair stage.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy.linalg import lapack
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import common
from gpexperts.engines import ThreadEngine
from gpexperts.experts.covariances import pair_covariance
from gpexperts.kernels.named import covariance_of
from gpexperts.linalg.lapack import cholesky_in_place
from gpexperts.training.likelihood import Block, log_marginal_likelihood


def seconds(action: Callable[[], object], repeats: int = 3) -> float:
    """Shortest of some runs."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    """Print the peak, and the share of it that each stage reaches."""
    rng, engine = np.random.default_rng(0), ThreadEngine()
    n_workers = engine.n_workers
    A = rng.standard_normal((1500, 1500))
    items = [0] * (2 * n_workers)
    peak = len(items) * 2 * 1500**3 / seconds(lambda: engine.map(lambda _: A @ A, items)) / 1e9
    row: dict[str, object] = {"peak_gflops": round(peak, 1)}
    print(f"matrix product, {n_workers} threads with one BLAS thread each: {peak:.0f} GFLOP/s")

    m, d = 500, 8
    covariance = covariance_of(1.0 * RBF(np.full(d, 2.0)) + WhiteKernel(0.1))
    blocks = [Block(rng.standard_normal((m, d)), rng.standard_normal((m, 1))) for _ in range(24)]
    took = training_took = seconds(
        lambda: engine.map(lambda b: log_marginal_likelihood(covariance, b), blocks)
    )
    share = 100 * len(blocks) * m**3 / took / 1e9 / peak
    row["training_share"] = round(share, 1)
    print(f"training, {len(blocks)} blocks of {m} rows: {share:.0f} % of it")

    q = rng.standard_normal((500, m))
    pairs = [(a.X, b.X) for a, b in pairwise(blocks)]
    took = seconds(lambda: engine.map(lambda p: pair_covariance(covariance, *p, q, q), pairs))
    share = 100 * len(pairs) * 2 * m * m * len(q) / took / 1e9 / peak
    row["pair_share"] = round(share, 1)
    print(f"pair stage, {len(pairs)} pairs of {m} rows, {len(q)} queries each: {share:.0f} % of it")

    # The other costs of the same stages.
    gram = seconds(lambda: engine.map(lambda b: covariance.noisy_gram_with_gradient(b.X), blocks))
    row["gram_of_training"] = round(100 * gram / training_took, 1)
    cross = seconds(lambda: engine.map(lambda p: covariance(*p), pairs))
    row["kernel_of_pairs"] = round(100 * cross / took, 1)
    print(f"kernel values take {row['gram_of_training']} % of training's time, "
          f"{row['kernel_of_pairs']} % of the pair stage's")  # fmt: skip

    C = covariance.noisy_gram(blocks[0].X).T
    wrapped = seconds(lambda: engine.map(lambda _: lapack.dpotrf(C, lower=1), items * 8))
    unlocked = seconds(lambda: engine.map(lambda _: cholesky_in_place(C.copy(order="F")), items * 8))
    print(f"Cholesky in {n_workers} threads: {wrapped / unlocked:.2f} times as fast without Python's lock")
    row["cholesky_without_lock"] = round(wrapped / unlocked, 2)
    common.append("efficiency", {**row, **common.machine()})


if __name__ == "__main__":
    main()
