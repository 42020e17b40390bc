"""
Outliers
========

A few grossly wrong targets ruin a fit with Gaussian noise. With Student-t noise they lose their weight.
The default, ``noise="auto"``, finds out which of the two the rows need.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpexperts import DistributedGPRegressor

# %%
# Two percent of the targets are wrong by up to 40 standard deviations of the noise.
rng = np.random.default_rng(2)
x = np.sort(rng.uniform(0, 10, 300))
truth = np.sin(x) + 0.3 * x
y = truth + 0.1 * rng.standard_normal(300)
wrong = rng.choice(300, 6, replace=False)
y[wrong] += rng.choice([-4, 4], 6)

# %%
# The two models differ in one parameter.
gaussian = DistributedGPRegressor(kernel="rbf", noise="gaussian", random_state=0).fit(x[:, None], y)
student = DistributedGPRegressor(kernel="rbf", noise="student", random_state=0).fit(x[:, None], y)

# %%
# Intervals of the robust model are those of an ordinary observation.
grid = np.linspace(0, 10, 300)[:, None]
fig, axes = plt.subplots(1, 2, figsize=(11, 3.8), sharey=True, layout="constrained")
for ax, model, title in zip(axes, (gaussian, student), ("Gaussian noise", 'noise="student"'), strict=True):
    mean = model.predict(grid)
    lower, upper = model.predict_interval(grid)
    ax.fill_between(grid[:, 0], lower, upper, color="#1f5fa8", alpha=0.2, label="95 % interval")
    ax.plot(grid[:, 0], mean, color="#1f5fa8", label="mean")
    ax.plot(x, y, ".", color="0.45", ms=3)
    ax.plot(x[wrong], y[wrong], "x", color="#c2571a", label="wrong targets")
    error = np.sqrt(np.mean((model.predict(x[:, None]) - truth) ** 2))
    ax.set(title=f"{title}: error of the mean {error:.3f}", xlabel="x")
axes[0].legend(frameon=False)
plt.show()
