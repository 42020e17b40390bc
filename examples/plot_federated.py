"""
Federated experts
=================

Four owners keep their rows. The server gets what it needs to combine their experts: means and variances.
"""

# sphinx_gallery_thumbnail_path = '_static/federated.png'
import matplotlib.pyplot as plt
import numpy as np

from gpexperts.federated import ClientRows, FederatedGPRegressor, LocalGrid, client_app

# %%
# Each owner has rows of another region. Here the clients run in this process; real ones run at their owners.
rng = np.random.default_rng(0)
inputs = [rng.uniform(low, low + 1.3, size=(120, 1)) for low in range(4)]
owners = [ClientRows(X, np.sin(4 * X[:, 0]) + 0.15 * rng.standard_normal(120)) for X in inputs]
grid = LocalGrid([client_app(rows) for rows in owners])

# %%
# ``fit`` takes a Flower grid in place of X and y.
model = FederatedGPRegressor(kernel="rbf", random_state=0).fit(grid)
print(model.log_)  # every message, by kind and bytes

# %%
# The picture of this run:
#
# .. image:: /_static/federated.png
#    :alt: The mean and interval of the federation over the rows of four owners
x = np.linspace(0, 4.3, 300)[:, None]
mean, std = model.predict(x, return_std=True)
fig, ax = plt.subplots(figsize=(9, 3.8), layout="constrained")
for k, rows in enumerate(owners):
    ax.plot(rows.X[:, 0], rows.y, ".", ms=4, label=f"rows of owner {k + 1}")
ax.fill_between(x[:, 0], mean - 1.96 * std, mean + 1.96 * std, color="#1f5fa8", alpha=0.2)
ax.plot(x, mean, color="#1f5fa8", label="federation")
ax.plot(x, np.sin(4 * x), "k--", lw=0.8, label="truth")
ax.set(xlabel="x", ylabel="y", ylim=(-2, 1.4))
ax.legend(frameon=False, ncols=3)
plt.show()
