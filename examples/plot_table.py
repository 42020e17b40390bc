"""
A table with categories and dates
=================================

A data frame as it is, against gradient boosting: errors and the coverage of intervals.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

from gpexperts import DistributedGPRegressor
from gpexperts.plot import EffectDisplay

# %%
# Rides of a bicycle hire: town, date and time, temperature with gaps.
rng = np.random.default_rng(0)
n = 1000
when = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 24 * 300, n), "h")
table = pd.DataFrame({"when": when, "town": rng.choice(["north", "south", "west"], n)})
table["temperature"] = 12 - 9 * np.cos(2 * np.pi * when.day_of_year / 365) + rng.normal(0, 3, n)
rush = np.exp(-((when.hour - 8) ** 2) / 6) + np.exp(-((when.hour - 17) ** 2) / 8)
rides = 30 + 80 * rush * (when.day_of_week < 5) + 3 * table["temperature"] + 15 * (table["town"] == "west")
rides = rides.to_numpy() + rng.normal(0, 6, n)
table.loc[::25, "temperature"] = np.nan
train, test = slice(0, 800), slice(800, n)

# %%
# The model encodes the columns itself. Trees get numbers that we make by hand.
model = DistributedGPRegressor(kernel="matern52", random_state=0).fit(table[train], rides[train])
print(model.choices_["columns"].evidence)
by_hand = table.assign(hour=when.hour, weekday=when.day_of_week, day=when.day_of_year).drop(columns="when")
by_hand["town"] = by_hand["town"].astype("category")
trees = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0)
trees.fit(by_hand[train], rides[train])

# %%
# The effects of the inputs, averaged over training rows. A date has one panel for elapsed time, and one for
# each cycle that the rows span at least twice.
mean, lower, upper = model.predict(table[test], return_interval=0.9)
inside = np.mean((lower <= rides[test]) & (rides[test] <= upper))
rmse = [np.sqrt(np.mean((p - rides[test]) ** 2)) for p in (mean, trees.predict(by_hand[test]))]
display = EffectDisplay.from_estimator(model, n_rows=30, features=["temperature", "town", "when"])
title = f"RMSE {rmse[0]:.1f}, gradient boosting {rmse[1]:.1f}; the 90 % intervals cover {100 * inside:.0f} %"
display.figure_.suptitle(title)
plt.show()
