"""Maps of a field with two inputs, before and after: `python benchmarks/continuity.py --picture`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

import common

PICTURE = common.HERE.parent / "docs" / "maps.png"
TITLES = {"before": "before: n_neighbors=0", "after": "after: the defaults"}


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

    figure, axes = plt.subplots(2, 3, figsize=(9.0, 6.4), layout="constrained", sharex=True, sharey=True)
    difference = {name: (maps.mean[name] - maps.exact) / maps.latent[name] for name in TITLES}
    level = np.ceil(2 * np.quantile(np.abs(difference["before"]), 0.995)) / 2
    low, high = np.quantile(maps.latent["before"], [0.01, 0.995])
    columns = (
        ("mean", maps.mean, plt.Normalize(maps.exact.min(), maps.exact.max()), "viridis"),
        ("(mean − exact GP) / latent std", difference, plt.Normalize(-level, level), "RdBu_r"),
        ("latent std", maps.latent, plt.Normalize(low, high), "magma"),
    )
    for column, (title, values, norm, colours) in zip(axes.T, columns, strict=True):
        for axis, name in zip(column, TITLES, strict=True):
            image = axis.imshow(
                values[name], origin="lower", extent=(0, 1, 0, 1), norm=norm, interpolation="nearest",
                cmap=plt.get_cmap(colours, 40),
            )  # fmt: skip
            axis.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        figure.colorbar(image, ax=column, location="bottom", shrink=0.9, aspect=30, extend="both")
        column[0].set_title(title, fontsize=11)
    for axis, (name, title) in zip(axes[:, 0], TITLES.items(), strict=True):
        axis.set_ylabel(f"{title}\n{maps.chosen[name]}", fontsize=10)
    figure.savefig(path, dpi=100, pil_kwargs={"optimize": True})
    plt.close(figure)


def draw_maps() -> None:
    """Write docs/maps.png."""
    draw(predicted_maps())
