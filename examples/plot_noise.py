"""
Noise that depends on the input
===============================

The noise of many measurements grows with an input. The variance can follow the residuals near each query.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import NPAE

# %%
# The standard deviation of the noise grows from 0.05 to 0.8.
rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 4000))
noise = 0.05 + 0.075 * x
y = np.sin(1.5 * x) + noise * rng.standard_normal(len(x))
X = x[:, None]

# %%
# The query's own expert, with and without the correction by local residuals. By default, held-out rows choose
# the corrections of the variance; ``disagreement=None`` leaves them as they are given.
settings = {"kernel": "rbf", "n_neighbors": 256, "n_selected": 0, "trend": None, "random_state": 0}
local = DistributedGPRegressor(aggregation=NPAE(disagreement=None, local_noise=1.0), **settings).fit(X, y)
constant = DistributedGPRegressor(aggregation=NPAE(disagreement=None), **settings).fit(X, y)

# %%
# The right panel holds the predicted standard deviations against the truth.
grid = np.linspace(0, 10, 300)
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
mean, std = local.predict(grid[:, None], return_std=True)
left.plot(x[::4], y[::4], ".", color="0.6", ms=2)
left.fill_between(
    grid, mean - 1.96 * std, mean + 1.96 * std, color="#1f5fa8", alpha=0.25, label="mean ± 1.96 std"
)
left.plot(grid, mean, color="#1f5fa8")
left.set(xlabel="x", ylabel="y")
left.legend(frameon=False)
right.plot(grid, 0.05 + 0.075 * grid, "k--", label="noise of the data")
right.plot(grid, std, color="#1f5fa8", label="corrected by local residuals")
right.plot(
    grid, constant.predict(grid[:, None], return_std=True)[1], color="#c2571a", label="one noise for all rows"
)
right.set(xlabel="x", ylabel="standard deviation", ylim=(0, None))
right.legend(frameon=False)
plt.show()
