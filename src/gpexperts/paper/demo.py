"""The demo: the paper's synthetic problem, five ways of answering it, and the picture of four of them.

3,000 noisy rows of a function of one input, ten experts, five of them asked per query. NPAE asks all
ten; GGM asks the same five everywhere; KNN and DNN choose five for each query. The exact GP at the same
hyperparameters is what all of them approximate.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from gpexperts.files import appearing
from gpexperts.metrics import coverage, msll, smse
from gpexperts.paper.datasets.synthetic import Split, analytic_problem
from gpexperts.regressor import DistributedGPRegressor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Contestant", "compare", "draw"]

LEVEL = 0.99
SELECTIONS = {"NPAE": "all", "GGM": "ggm", "KNN": "knn", "DNN": "dnn"}


class Contestant(NamedTuple):
    """One way of answering, and how it did."""

    name: str
    smse: float
    msll: float
    coverage: float
    """Share of test targets inside their 99 % interval."""
    fit_seconds: float
    """Training included; the ways that share experts share their training time."""
    predict_seconds: float
    curve: tuple[np.ndarray, np.ndarray]
    """Mean and standard deviation of an observation on `grid()`."""


def grid() -> np.ndarray:
    """Inputs at which the picture is drawn, (k, 1)."""
    return np.linspace(-0.2, 1.2, 561)[:, None]


def compare(
    n: int = 3000, n_experts: int = 10, n_selected: int = 5, seed: int = 0
) -> tuple[Split, list[Contestant]]:
    """Fit once, answer five ways, score each."""
    split = analytic_problem(n, seed=seed)
    model = DistributedGPRegressor(
        n_experts=n_experts,
        partition="kmeans",
        kernel="rbf",
        training="full",
        selection="all",
        random_state=seed,
    )
    fit_seconds = _seconds(lambda: model.fit(split.X_train, split.y_train))
    contestants = []
    for name, selection in SELECTIONS.items():
        model.set_params(selection=selection, n_selected="auto" if selection == "all" else n_selected)
        selector_seconds = _seconds(lambda: model.select(split.X_test[:1]))
        contestants.append(_score(name, model, split, fit_seconds + selector_seconds))
    exact = DistributedGPRegressor(n_experts=1, kernel=model.kernel_, optimizer=None, random_state=seed)
    exact_seconds = _seconds(lambda: exact.fit(split.X_train, split.y_train))
    contestants.append(_score("full GP", exact, split, fit_seconds + exact_seconds))
    return split, contestants


def _score(name: str, model: DistributedGPRegressor, split: Split, fit_seconds: float) -> Contestant:
    # The factors are made when a query first needs them: a prediction without them is what is timed.
    began = time.perf_counter()
    mean, std = model.predict(split.X_test, return_std=True)
    predict_seconds = time.perf_counter() - began
    return Contestant(
        name,
        smse(split.y_test, mean),
        msll(split.y_test, mean, std, split.y_train),
        coverage(split.y_test, mean, std, LEVEL),
        fit_seconds,
        predict_seconds,
        model.predict(grid(), return_std=True),
    )


def _seconds(action: Any) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def draw(split: Split, contestants: list[Contestant], path: Path) -> Figure:
    """Draw the four 99 % confidence panels over the full GP and save them to `path`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    *panels, full = contestants
    x, width = grid()[:, 0], ndtri(0.5 + 0.5 * LEVEL)
    figure = Figure(figsize=(11, 7), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for ax, contestant in zip(axes.flat, panels, strict=True):
        mean, std = contestant.curve
        full_mean, full_std = full.curve
        ax.axvspan(0, 1, color="0.95", zorder=0, label="training inputs")
        ax.plot(split.X_test, split.y_test, ".", color="0.45", ms=3, label="test rows")
        ax.fill_between(
            x, mean - width * std, mean + width * std, color="C0", alpha=0.25, lw=0,
            label=f"{contestant.name}, 99 % interval",
        )  # fmt: skip
        ax.plot(x, mean, color="C0", lw=1.8, label=f"{contestant.name}, mean")
        ax.plot(x, full_mean, color="C3", lw=1.1, ls="--", label="full GP, mean")
        for sign in (-1, 1):
            ax.plot(
                x, full_mean + sign * width * full_std, color="C3", lw=0.8, ls=":",
                label="full GP, 99 % interval" if sign > 0 else None,
            )  # fmt: skip
        ax.set_title(
            f"{contestant.name}: SMSE {contestant.smse:.4f}, MSLL {contestant.msll:.3f}, "
            f"coverage {contestant.coverage:.3f}",
            fontsize=10,
        )
        ax.set_xlim(-0.2, 1.2)
        ax.margins(y=0.02)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    labels = [label.replace("NPAE", "experts") for label in labels]
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=9, frameon=False)
    for ax in axes[-1]:
        ax.set_xlabel("x")
    for ax in axes[:, 0]:
        ax.set_ylabel("y")
    path.parent.mkdir(parents=True, exist_ok=True)
    with appearing(path) as part:
        figure.savefig(part, dpi=110, format=path.suffix[1:] or "png")
    return figure
