"""
Streaming updates
=================

Rows arrive in batches. ``partial_fit`` adds them and ``forget`` removes old ones, without training again.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from gpexperts import DistributedGPRegressor

# %%
# A sensor whose response drifts: the function changes slowly with time.
rng = np.random.default_rng(0)


def batch(step: int, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    x = rng.uniform(0, 10, n)
    return x[:, None], np.sin(x + 0.08 * step) + 0.1 * rng.standard_normal(n)


# %%
# The model keeps the last 240 rows. Rows are numbered in the order of their arrival.
first = [batch(step=0, n=240)]
start = DistributedGPRegressor(kernel="rbf", n_neighbors=32, n_selected=0, random_state=0).fit(*first[0])
model = DistributedGPRegressor(kernel="rbf", n_neighbors=32, n_selected=0, random_state=0).fit(*first[0])
seconds, errors = [], {"updated": [], "not updated": []}
for step in range(1, 21):
    X, y = batch(step)
    for name, each in (("updated", model), ("not updated", start)):  # predicted before it is learned
        errors[name].append(np.sqrt(np.mean((each.predict(X) - y) ** 2)))
    began = time.perf_counter()
    model.partial_fit(X, y, retrain="never")
    model.forget(np.arange(60 * (step - 1), 60 * step))
    seconds.append(time.perf_counter() - began)
print(f"an update took {1000 * np.median(seconds):.0f} ms")

# %%
# The updated model follows the drift. The other one describes the past.
grid = np.linspace(0, 10, 200)[:, None]
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
left.plot(X[:, 0], y, ".", color="0.4", label="the latest rows")
for name, each, colour in (("updated", model, "#1f5fa8"), ("not updated", start, "#c2571a")):
    left.plot(grid[:, 0], each.predict(grid), color=colour, label=name)
    right.plot(range(1, 21), errors[name], "o-", color=colour, label=name)
right.axhline(0.1, color="0.3", ls="--", lw=0.8, label="noise of the data")
left.set(xlabel="x", ylabel="y", ylim=(-1.4, 1.7))
right.set(
    xlabel="batch", ylabel="error before the batch is learned", ylim=(0, None), xticks=[1, 5, 10, 15, 20]
)
left.legend(loc="upper center", ncols=3, fontsize=8)
right.legend(frameon=False)
plt.show()
