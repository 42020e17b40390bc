"""Peak memory of a large prediction: 1,000,000 queries against 50 experts of 500 rows.

Run it as `python benchmarks/prediction_memory.py`. It prints the increase of the peak memory by the
prediction, and fails if this is more than 1 GB.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from gpexperts import DistributedGPRegressor

LIMIT = 10**9


def peak() -> int:
    """Largest resident size of this process so far, in bytes."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else 1024 * size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--experts", type=int, default=50)
    parser.add_argument("--rows", type=int, default=500, help="rows per expert")
    parser.add_argument("--selected", type=int, default=5, help="experts selected per query")
    parser.add_argument("--aggregation", default="npae")
    args = parser.parse_args()

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(args.experts * args.rows, 4))
    y = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1]) + X[:, 2] + 0.1 * rng.normal(size=len(X))
    model = DistributedGPRegressor(
        n_experts=args.experts, partition="balanced", kernel=1.0 * RBF([1.0] * 4) + WhiteKernel(0.02),
        optimizer=None, training="full", selection="knn", n_selected=args.selected,
        n_neighbors=0, aggregation=args.aggregation, random_state=0,
    ).fit(X, y)  # fmt: skip
    queries = rng.uniform(size=(args.queries, 4))

    before, began = peak(), time.perf_counter()
    mean, std = model.predict(queries, return_std=True)
    seconds, rise = time.perf_counter() - began, peak() - before
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    print(
        f"{args.queries:,} queries, {args.experts} experts of {args.rows} rows, {args.selected} selected, "
        f"{args.aggregation}: peak memory rose by {rise / 1e9:.2f} GB in {seconds:.1f} s"
    )
    if rise > LIMIT:
        sys.exit(f"This is more than {LIMIT / 1e9:g} GB.")


if __name__ == "__main__":
    main()
