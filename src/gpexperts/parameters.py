"""The settings of the estimator, as the user wrote them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from gpexperts.calibration import METHODS
from gpexperts.engines import Engine, ThreadEngine
from gpexperts.engines.dask import engine_for, portable
from gpexperts.settings import bytes_of

__all__ = ["Parameters"]

_WORK_BYTES = 256 * 1024**2
"""Work arrays of a batch take no more than this, however large the budget: larger ones are no faster."""


class Parameters(BaseEstimator):
    """What `DistributedGPRegressor` was constructed with, and what follows from that alone."""

    def __init__(
        self,
        n_experts: int | str = "auto",
        expert_size: int | str = "auto",
        partition: Any = "auto",
        kernel: Any = "auto",
        optimizer: str | None = "lbfgs",
        n_restarts: int = 0,
        training: str = "auto",
        selection: Any = "auto",
        n_selected: int | float | str = "auto",
        aggregation: Any = "npae",
        standardize: bool = True,
        memory_budget: int | str = "auto",
        engine: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: str | os.PathLike[str] | None = None,
        share_inputs: bool = True,
        calibrate: str | None = None,
    ) -> None:
        self.n_experts = n_experts
        self.expert_size = expert_size
        self.partition = partition
        self.kernel = kernel
        self.optimizer = optimizer
        self.n_restarts = n_restarts
        self.training = training
        self.selection = selection
        self.n_selected = n_selected
        self.aggregation = aggregation
        self.standardize = standardize
        self.memory_budget = memory_budget
        self.engine = engine
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.share_inputs = share_inputs
        self.calibrate = calibrate

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, portable(value) if name == "engine" else value)

    def _check_settings(self) -> None:
        bytes_of(self.memory_budget)  # refuses what is not a size
        if self.optimizer not in ("lbfgs", None):
            raise ValueError(f"optimizer must be 'lbfgs' or None, got {self.optimizer!r}.")
        if self.training not in ("auto", "full"):
            raise ValueError(f"training must be 'auto' or 'full', got {self.training!r}.")
        if not (self.calibrate is None or isinstance(self.calibrate, str)) or self.calibrate not in METHODS:
            raise ValueError(f"calibrate must be None, 'scale' or 'conformal', got {self.calibrate!r}.")
        if isinstance(self.n_restarts, bool) or not isinstance(self.n_restarts, (int, np.integer)):
            raise TypeError(f"n_restarts must be an int, got {self.n_restarts!r}.")
        if self.n_restarts < 0:
            raise ValueError(f"n_restarts must be at least 0, got {self.n_restarts}.")

    def _engine(self) -> Engine:
        if self.engine is None:
            return ThreadEngine(self.n_jobs)
        if isinstance(self.engine, Engine):
            return self.engine
        return engine_for(self.engine)

    @property
    def _factor_budget(self) -> int:
        budget = bytes_of(self.memory_budget)
        return max(budget - _WORK_BYTES, budget // 2)

    @property
    def _work_budget(self) -> int:
        return min(_WORK_BYTES, bytes_of(self.memory_budget) // 4)
