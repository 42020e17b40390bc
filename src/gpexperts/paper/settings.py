"""The settings of the paper, each one named: no experiment depends on a default of the library.

Corrections of the variance that the library selects by held-out density are not part of the paper and are
off: ``NPAE(disagreement=None, scale=1.0, local_noise=0.0)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpexperts.aggregation import NPAE, Aggregator
from gpexperts.regressor import DistributedGPRegressor
from gpexperts.selection import DNNSelector, GGMSelector, KNNSelector, Selector

__all__ = ["ALL", "paper_aggregation", "paper_model", "paper_selection"]

ALL = 1.0
"""Ratio K/M if every expert is selected."""


def paper_model(
    n_experts: int,
    seed: int,
    *,
    partition: str = "kmeans",
    training: str = "full",
    selection: str | Selector = "all",
    n_selected: int | float = ALL,
    aggregation: str = "npae",
) -> DistributedGPRegressor:
    """Return the unfitted estimator with the settings of the paper.

    Parameters
    ----------
    n_experts : int
        M.
    seed : int
    partition, training : str
        The paper uses k-means and joint training on all parts.
    selection : str or Selector
    n_selected : int or float
        K, or K/M.
    aggregation : str
        Name of an aggregation rule.
    """
    return DistributedGPRegressor(
        n_experts=n_experts,
        partition=partition,
        kernel="rbf",
        optimizer="lbfgs",
        n_restarts=0,
        training=training,
        selection=paper_selection(selection) if isinstance(selection, str) else selection,
        n_selected=n_selected,
        n_neighbors=0,
        aggregation=paper_aggregation(aggregation),
        standardize=True,
        calibrate=None,
        noise="gaussian",
        target_transform=None,
        trend=None,
        random_state=seed,
    )


def paper_aggregation(name: str) -> str | Aggregator:
    """Return the aggregation rule of this name without corrections of the variance."""
    if name == "npae":
        return NPAE(nugget=1e-8, disagreement=None, scale=1.0, local_noise=0.0)
    return name


def paper_selection(name: str, inputs: np.ndarray | None = None, **changes: Any) -> str | Selector:
    """Return the selector of this name with the settings of the paper.

    Parameters
    ----------
    name : {"all", "ggm", "knn", "dnn"}
    inputs : ndarray of shape (n, d), optional
        Inputs on which the graph is learned; the paper uses the test inputs.
    **changes
        Parameters of the selector that differ from the paper.
    """
    if name == "ggm":
        return GGMSelector(**{"penalty": 0.1, "inputs": inputs} | changes)
    if name == "knn":
        return KNNSelector(**{"metric": "euclidean"} | changes)
    if name == "dnn":
        settings: dict[str, Any] = {
            "hidden_units": 50,
            "output": "softmax",
            "batch_size": "auto",
            "max_iter": 100,
        }
        return DNNSelector(**settings | changes)
    return name
