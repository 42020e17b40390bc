"""
A map
=====

A field over two coordinates: the mean and the standard deviation on a grid, in the coordinates of the user.
"""

import matplotlib.pyplot as plt
import numpy as np

from gpexperts import DistributedGPRegressor
from gpexperts.plot import MapDisplay

# %%
# Temperatures at some hundred stations. There are none on a lake.
rng = np.random.default_rng(1)
lon = rng.uniform(5, 11, 300)
lat = rng.uniform(45.5, 48, 300)
keep = (lon - 8.2) ** 2 + (lat - 46.8) ** 2 > 0.4
lon, lat = lon[keep], lat[keep]
temperature = (
    14 - 3 * np.sin(2 * lon) * np.cos(3 * lat) - 2 * (lat - 46.5) + 0.4 * rng.standard_normal(len(lon))
)

# %%
# One length scale per coordinate; no projection or scaling is needed.
X = np.column_stack([lon, lat])
model = DistributedGPRegressor(random_state=0).fit(X, temperature)

# %%
# The standard deviation is large where there are no stations.
display = MapDisplay.from_estimator(model, X, temperature, n_grid=70)
display.figure_.set_size_inches(11, 2.5)
for ax in display.axes_:
    ax.set(xlabel="longitude", ylabel="latitude")
plt.show()
