"""
Bayesian optimisation
=====================

Find the minimum of an expensive function in few evaluations, with drawn functions and ``predict_gradient``.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

from gpexperts import DistributedGPRegressor


# %%
# The Branin function. Its three minima have the value 0.398.
def branin(X: np.ndarray) -> np.ndarray:
    a, b = X.T
    return (b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6) ** 2 + 9.6 * np.cos(a) + 10


low, high = np.array([-5.0, 0.0]), np.array([10.0, 15.0])
rng = np.random.default_rng(0)
X = rng.uniform(low, high, size=(30, 2))
model = DistributedGPRegressor(kernel="matern52", noise="gaussian", random_state=0).fit(X, branin(X))

# %%
# Thompson sampling: each round draws four functions and evaluates the lowest of many points for each of them.
for step in range(8):
    candidates = rng.uniform(low, high, size=(600, 2))
    drawn = model.draw_functions(4, random_state=step)(candidates)
    new = candidates[drawn.argmin(axis=0)]
    X = np.vstack([X, new])
    model.partial_fit(new, branin(new), retrain="never")

# %%
# L-BFGS on the predicted mean, with its exact gradient.
found = minimize(
    lambda x: model.predict(x[None])[0],
    X[branin(X).argmin()],
    jac=lambda x: model.predict_gradient(x[None])[0],
    bounds=np.column_stack([low, high]),
)
print(f"minimum {branin(found.x[None])[0]:.3f} at {found.x.round(2)} after {len(X)} evaluations")

# %%
# Arrows point down the predicted slope. Later evaluations are darker; the star is the optimum.
a, b = np.meshgrid(np.linspace(-5, 10, 40), np.linspace(0, 15, 40))
grid = np.column_stack([a.ravel(), b.ravel()])
slope = -model.predict_gradient(grid[::7])
fig, ax = plt.subplots(figsize=(7.5, 5), layout="constrained")
height = np.log10(1 + np.maximum(model.predict(grid), 0)).reshape(a.shape)
drawn = ax.contourf(a, b, height, 20, cmap="Blues_r")
ax.quiver(*grid[::7].T, *(slope / np.linalg.norm(slope, axis=1, keepdims=True)).T, color="0.5", scale=45)
ax.scatter(*X.T, c=np.arange(len(X)), cmap="Oranges", edgecolor="k", s=28)
ax.plot(*found.x, "*", color="#c2571a", mec="w", ms=18)
ax.set(xlabel="first input", ylabel="second input")
fig.colorbar(drawn, label="log₁₀(1 + predicted mean)")
plt.show()
