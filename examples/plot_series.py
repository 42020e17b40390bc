"""
A series with gaps
==================

A time series with missing weeks: the mean follows the data, and the interval is wide where there are none.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpexperts import DistributedGPRegressor
from gpexperts.plot import PredictionDisplay1D

# %%
# A tide gauge that failed twice.
rng = np.random.default_rng(0)
t = np.sort(rng.uniform(0, 30, 400))
t = t[~((t > 8) & (t < 11)) & ~((t > 20) & (t < 21.5))]
level = (
    1.2 * np.sin(2 * np.pi * t / 6) + 0.4 * np.sin(2 * np.pi * t / 1.9) + 0.15 * rng.standard_normal(len(t))
)

# %%
# With a few hundred rows the model is the exact Gaussian process.
model = DistributedGPRegressor(random_state=0).fit(t[:, None], level)
print(model.kernel_)

# %%
# The display draws the mean, the 95 % interval and the observations.
display = PredictionDisplay1D.from_estimator(model, t[:, None], level)
display.figure_.set_size_inches(9, 3.6)
display.ax_.set(xlabel="day", ylabel="level", ylim=(-3.6, 2.5))
display.ax_.set_title("Where there are no rows, the interval is wide")
display.ax_.legend(loc="lower center", ncols=3, frameon=False)
plt.show()
