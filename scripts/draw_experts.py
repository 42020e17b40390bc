"""Draw docs/images/experts.png: how one prediction is made, for the page "How it works, in pictures".

python scripts/draw_experts.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from gpexperts import DistributedGPRegressor

OUT = Path(__file__).parents[1] / "docs" / "images" / "experts.png"
ACCENT, SECOND = "#1f5fa8", "#c2571a"


def main() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform([0, 0], [6, 4], size=(700, 2))
    y = np.sin(1.5 * X[:, 0]) + 0.5 * np.cos(X[:, 1]) + 0.15 * rng.standard_normal(700)
    query = np.array([[2.9, 1.7]])
    model = DistributedGPRegressor(kernel="rbf", n_experts=12, n_neighbors=40, n_selected=3, random_state=0)
    model.fit(X, y)
    told = model.explain(query)
    assert told.own is not None

    fig, axes = plt.subplots(2, 2, figsize=(10.5, 7.4), layout="constrained")
    parts, near, chosen, combined = axes.flat
    parts.scatter(*X.T, c=model.labels_, cmap="tab20", s=12)
    parts.set_title("1. Partition: the rows of twelve experts")

    near.plot(*X.T, ".", color="0.85", ms=4)
    weight = np.abs(told.own.row_weight[0]) / np.abs(told.own.row_weight[0]).max()
    near.scatter(*told.own.inputs[0].T, s=14 + 110 * weight, color=ACCENT, alpha=0.75, lw=0)
    near.set_title("2. Own expert: the 40 nearest rows, by weight")

    chosen.plot(*X.T, ".", color="0.85", ms=4)
    for k, expert in enumerate(told.experts[0]):
        member = model.labels_ == expert
        chosen.plot(*X[member].T, ".", color=plt.cm.tab20(2 * k), ms=6, label=f"expert {expert}")
    chosen.legend(loc="upper right", framealpha=0.9)
    chosen.set_title("3. Selection: the owners of the nearest rows")
    for ax in (parts, near, chosen):
        ax.plot(*query[0], "*", color=SECOND, mec="white", ms=18)
        ax.set(xlabel="x0", ylabel="x1", xlim=(0, 6), ylim=(0, 4))

    names = ["own expert", *(f"expert {e}" for e in told.experts[0]), "prediction"]
    means = np.array([told.own.mean[0], *told.expert_mean[0], told.mean[0]])
    _, latent = model.predict(query, return_std=True, latent=True)
    stds = np.array([told.own.std[0], *told.expert_std[0], latent[0]])
    weights = [told.own.weight[0], *told.weight[0]]
    for i, (mean, std) in enumerate(zip(means, stds, strict=True)):
        colour = SECOND if i == len(names) - 1 else ACCENT
        combined.errorbar(mean, -i, xerr=2 * std, fmt="o", color=colour, lw=2.5, ms=7)
    labels = [f"{name}\nweight {w:.2f}" for name, w in zip(names, weights, strict=False)]
    combined.set_yticks(-np.arange(len(names)), [*labels, names[-1]])
    truth = np.sin(1.5 * query[0, 0]) + 0.5 * np.cos(query[0, 1])
    combined.axvline(truth, color="0.3", ls="--", lw=1, label="truth")
    combined.legend(loc="lower right", frameon=False)
    combined.set(xlabel="function at the query: mean ± 2 standard deviations")
    combined.set_title("4. Aggregation: a weighted sum of the means")
    fig.savefig(OUT, dpi=90)
    print(f"{OUT.name}: prediction {told.mean[0]:.3f}, truth {truth:.3f}")


if __name__ == "__main__":
    main()
