"""
Calibration of the rules
========================

Six rules combine the same experts. NPAE, which uses their correlations, has nominal coverage at every level.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from gpexperts import DistributedGPRegressor
from gpexperts.inspection import calibration_curve

# %%
# Functions drawn from the kernel that the model uses: only the rule can be wrong. They are 40 targets.
kernel = 1.0 * RBF(0.3) + WhiteKernel(0.01)
rng = np.random.default_rng(0)
X = rng.uniform(size=(900, 2))
root = np.linalg.cholesky(kernel.k1(X) + 1e-10 * np.eye(900))
f = root @ rng.standard_normal((900, 40))
y = f + 0.1 * rng.standard_normal(f.shape)
train, test = slice(0, 600), slice(600, 900)

# %%
# Ten experts with random parts, all of them selected, no training and no correction.
settings = {"kernel": kernel, "optimizer": None, "n_experts": 10, "partition": "random", "selection": "all"}
settings |= {"n_neighbors": 0, "standardize": False, "random_state": 0}
fig, ax = plt.subplots(figsize=(6.5, 5), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.3", ls="--", lw=0.8, label="perfect calibration")
for rule in ("npae", "grbcm", "gpoe", "poe", "bcm", "rbcm"):
    model = DistributedGPRegressor(aggregation=rule, **settings)
    mean, std = model.fit(X[train], y[train]).predict(X[test], return_std=True, latent=True)
    levels, shares = calibration_curve(f[test].ravel(), mean.ravel(), std.ravel())
    ax.plot(levels, shares, lw=2.4 if rule == "npae" else 1.3, label=rule.upper())
ax.set(xlabel="nominal coverage", ylabel="coverage of the function", aspect="equal", xlim=(0, 1), ylim=(0, 1))
ax.legend(frameon=False)
plt.show()
