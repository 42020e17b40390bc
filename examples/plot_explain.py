"""
Explaining one prediction
=========================

Which training rows does a prediction rest on, and which inputs matter?
"""

import matplotlib.pyplot as plt
import numpy as np

from gpexperts import DistributedGPRegressor
from gpexperts.effects import importance

# %%
# Two of three inputs matter.
rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(2000, 3))
y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * rng.standard_normal(2000)
model = DistributedGPRegressor(kernel="rbf", n_experts=8, n_neighbors=64, n_selected=0, random_state=0)
model.fit(X[:1800], y[:1800])

# %%
# The query's own expert: its training rows, and their weights in the prediction.
query = np.array([[0.5, -1.0, 0.0]])
own = model.explain(query).own
print(f"prediction {model.predict(query)[0]:.3f}, truth {np.sin(1.0) + 0.5:.3f}")

# %%
# Left: rows with large weights are near the query in the inputs that matter. Right: permutation importance.
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
left.plot(*X[:1800, :2].T, ".", color="0.85", ms=3)
size = 3000 * np.abs(own.row_weight[0])
drawn = left.scatter(*own.inputs[0, :, :2].T, s=size, c=own.targets[0], cmap="viridis", edgecolor="k", lw=0.3)
left.plot(*query[0, :2], "x", color="#c2571a", ms=12, mew=3)
fig.colorbar(drawn, ax=left, label="target of the row")
left.set(xlabel="x0", ylabel="x1", title="Training rows, by weight")
shares = importance(model, X[1800:], y[1800:])
right.barh([one.name for one in shares][::-1], [one.increase for one in shares][::-1], color="#1f5fa8")
right.set(xlabel="increase of the error if shuffled", title="Permutation importance")
plt.show()
