"""
Samples of functions, and a sum with its interval
=================================================

How much energy was used while the meter was broken? The error of a sum depends on how errors are correlated.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpexperts import DistributedGPRegressor

# %%
# The power of a building every half hour for eight days. For half a day the meter has failed.
rng = np.random.default_rng(0)
hours = np.arange(0, 192, 0.5)
truth = 40 + 15 * np.sin(2 * np.pi * hours / 24) + 5 * np.sin(2 * np.pi * hours / 70)
power = truth + 2 * rng.standard_normal(len(hours))
gap = (hours > 98) & (hours < 110)
X, X_gap = hours[~gap, None], hours[gap, None]
model = DistributedGPRegressor(kernel="matern52", random_state=0).fit(X, power[~gap])

# %%
# The sum over the gap. Standard deviations that are added as if errors were independent are too small.
total, std = model.predict_sum(X_gap)
_, each = model.predict(X_gap, return_std=True)
print(f"energy {total / 2:.0f} ± {1.96 * std / 2:.0f} kWh, observed {power[gap].sum() / 2:.0f} kWh")
print(f"as if independent: ± {1.96 * np.sqrt(np.sum(each**2)) / 2:.0f} kWh")

# %%
# Each drawn function is one possible course. Sums, maxima and differences can be computed for each of them.
functions = model.draw_functions(200, random_state=0)
drawn = functions(X_gap)  # (23, 200)

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), width_ratios=[2, 1], layout="constrained")
shown = (hours > 72) & (hours < 136)
left.plot(hours[shown], functions[:12](hours[shown, None]), color="#1f5fa8", lw=0.8, alpha=0.6)
left.plot(hours[shown & ~gap], power[shown & ~gap], ".", color="0.4", ms=4, label="observed")
left.plot(hours[gap], power[gap], ".", color="#c2571a", ms=4, label="not seen by the model")
left.set(xlabel="hour", ylabel="power / kW", title="Twelve drawn functions")
left.legend(frameon=False)
right.hist(drawn.sum(axis=0) / 2, bins=20, density=True, color="#1f5fa8", alpha=0.35, label="drawn functions")
grid = np.linspace(total / 2 - 2 * std, total / 2 + 2 * std, 200)
density = np.exp(-0.5 * ((grid - total / 2) / (std / 2)) ** 2) / (std / 2 * np.sqrt(2 * np.pi))
right.plot(grid, density, color="#1f5fa8", label="predict_sum")
right.axvline(power[gap].sum() / 2, color="#c2571a", label="observed")
right.set(xlabel="energy in the gap / kWh", yticks=[], title="The sum")
right.legend(frameon=False, fontsize=8)
plt.show()
