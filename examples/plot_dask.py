"""
A Dask cluster
==============

The same model from a dask array on workers as from a NumPy array, and lazy predictions.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client, LocalCluster

from gpexperts import DistributedGPRegressor

# %%
# 1,200 rows in four pieces. On a real cluster they would come from ``dask.dataframe.read_parquet``.
rng = np.random.default_rng(0)
X = rng.uniform(0, 4, size=(1200, 2))
y = np.sin(2 * X[:, 0]) + np.cos(3 * X[:, 1]) + 0.1 * rng.standard_normal(1200)
dask_X, dask_y = da.from_array(X, chunks=(300, 2)), da.from_array(y, chunks=300)

# %%
# ``engine`` is a client, an address or "dask". Threads are used here in place of worker processes.
settings = {"n_experts": 12, "kernel": "rbf", "n_selected": 2, "n_neighbors": 0, "random_state": 0}
cluster = LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None)
with cluster, Client(cluster) as client:
    model = DistributedGPRegressor(engine=client, **settings).fit(dask_X, dask_y)
    lazy_mean = model.predict(dask_X[:600])  # a dask array
    mean = lazy_mean.compute()
    local = model.to_local()

# %%
# Rows in memory give the same model.
same = DistributedGPRegressor(**settings).fit(X, y)
print("largest difference", np.abs(same.predict(X[:600]) - mean).max())

# %%
# Left: each expert has the rows of one part. Right: the mean that they predict together.
side = np.linspace(0, 4, 60)
grid = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
left.scatter(*X.T, c=same.labels_, cmap="tab20", s=9)
left.set(title="The rows of twelve experts", xlabel="x0", ylabel="x1", aspect="equal")
drawn = right.pcolormesh(side, side, local.predict(grid).reshape(60, 60), cmap="viridis")
right.set(title="Predicted mean", xlabel="x0", ylabel="x1", aspect="equal")
fig.colorbar(drawn, ax=right)
plt.show()
