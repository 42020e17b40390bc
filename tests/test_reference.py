"""NPAE against the numbers of its authors' own program (R package nestedKriging 0.2.2)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import NPAE

NUMBERS = Path(__file__).parent / "data" / "nested_kriging.npz"


@pytest.mark.parametrize("case", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_npae_agrees_with_nested_kriging(case: int) -> None:
    with np.load(NUMBERS) as arrays:
        g = {name.split("_", 1)[1]: arrays[name] for name in arrays.files if name.startswith(f"case{case}_")}
    kernel = ConstantKernel(float(g["signal_variance"])) * RBF(g["length_scale"]) + WhiteKernel(
        float(g["noise_variance"])
    )
    model = DistributedGPRegressor(
        partition=g["labels"].astype(int), kernel=kernel, optimizer=None, standardize=False,
        selection="all", n_neighbors=0, aggregation=NPAE(nugget=0.0),
    ).fit(g["X"], g["y"])  # fmt: skip
    mean, std = model.predict(g["X_new"], return_std=True, latent=True)
    scale = float(np.sqrt(g["signal_variance"]))
    np.testing.assert_allclose(mean, g["mean"], rtol=0, atol=1e-6 * scale)
    np.testing.assert_allclose(std**2, g["latent_variance"], rtol=0, atol=1e-6 * scale**2)
