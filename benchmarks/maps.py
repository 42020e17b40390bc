"""Maps of a field with two inputs, before and after: `python benchmarks/continuity.py --picture`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

import common

PICTURE = common.HERE.parent / "docs" / "maps.png"
TITLES = {"before": "fixed experts alone (n_neighbors=0)", "after": "defaults"}


class Maps(NamedTuple):
    """Predictions on a grid of the unit square."""

    chosen: dict[str, str]
    """The experts of a query, by setup."""
    mean: dict[str, np.ndarray]
    """(GRID, GRID), by setup."""
    latent: dict[str, np.ndarray]
    """Standard deviations of the function."""
    exact: np.ndarray
    """Mean of the exact GP at the same θ."""


def predicted_maps() -> Maps:
    """Fit the field and predict on the grid, before and after."""
    from continuity import GRID, ROWS, SETUPS, exact_means, fitted

    model, data = fitted("field", ROWS["field"])
    axis = (np.arange(GRID) + 0.5) / GRID
    X = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    chosen, mean, latent = {}, {}, {}
    for name, parameters in SETUPS.items():
        model.set_params(**parameters)
        chosen[name] = str(model.predictor_.tuning)
        at_grid = model.predict(X, return_std=True, latent=True)
        mean[name], latent[name] = (values.reshape(GRID, GRID) for values in at_grid)
    return Maps(chosen, mean, latent, exact_means(model, data, X).reshape(GRID, GRID))


def draw(maps: Maps, path: Path = PICTURE) -> None:
    """Draw means, their differences to the exact GP, and standard deviations; a row before, a row after."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(9.6, 6.2), layout="constrained", sharex=True, sharey=True)
    level = np.quantile(np.abs((maps.mean["before"] - maps.exact) / maps.latent["before"]), 0.99)
    low, high = np.quantile(np.concatenate(list(maps.latent.values())), [0.01, 0.99])
    for row, name in zip(axes, TITLES, strict=True):
        mean, latent = maps.mean[name], maps.latent[name]
        panels = (
            ("mean", mean, {"cmap": "viridis", "vmin": maps.exact.min(), "vmax": maps.exact.max()}),
            (
                "(mean − exact GP) / latent std",
                (mean - maps.exact) / latent,
                {"cmap": "RdBu_r", "vmin": -level, "vmax": level},
            ),
            ("latent std", latent, {"cmap": "magma", "vmin": low, "vmax": high}),
        )
        for axis, (title, values, style) in zip(row, panels, strict=True):
            image = axis.imshow(values, origin="lower", extent=(0, 1, 0, 1), **style)
            figure.colorbar(image, ax=axis, shrink=0.85)
            axis.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
            if name == "before":
                axis.set_title(title, fontsize=10)
        row[0].set_ylabel(f"{TITLES[name]}:\n{maps.chosen[name]}", fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_maps() -> None:
    """Write docs/maps.png."""
    draw(predicted_maps())
