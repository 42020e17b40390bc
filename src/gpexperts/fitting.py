"""How a model is fitted: units, hyperparameters, parts, experts, in this order."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from gpexperts.aggregation import AGGREGATORS, Aggregator
from gpexperts.asking import Asking
from gpexperts.calibration import HELD_OUT, draw_held_out, kept_labels
from gpexperts.engines import Engine, Held
from gpexperts.engines.traffic import Travelled
from gpexperts.exceptions import ConstantTargetWarning
from gpexperts.experts.checkpoint import Checkpoint
from gpexperts.experts.local import Experts
from gpexperts.kernels.named import Covariance, candidate_kernels, covariance_of
from gpexperts.memory import check_memory
from gpexperts.partition import PARTITIONERS, Partitioner
from gpexperts.partition.assign import deal_rows, labels_are_given, least_rows
from gpexperts.partition.base import centroids_of
from gpexperts.progress import listeners
from gpexperts.scaling import Standardizer, check_magnitudes
from gpexperts.selection import Selector
from gpexperts.settings import member
from gpexperts.training.blocks import BlockDrawer, sample_blocks
from gpexperts.training.likelihood import Block, TraceRow, maximise_likelihood, warn_of_bounds, warn_of_jitter
from gpexperts.training.schedule import largest_block, train_in_stages
from gpexperts.tuning import Rule

__all__ = ["Fitting", "Streams"]


class Streams(NamedTuple):
    """One source of randomness for each stage, so that none depends on how much another draws."""

    partition: np.random.RandomState
    training: np.random.RandomState
    communication: np.random.RandomState
    sample: np.random.RandomState
    """For rows drawn from a dask collection."""
    calibration: np.random.RandomState
    """For rows that are held out."""
    checkpoint: Checkpoint | None = None
    """Where training is written down, for the same streams to be gone through again."""


class Fitting(Asking):
    """The part of the estimator that turns rows into experts; `cluster` calls the same steps."""

    labels_: np.ndarray
    trace_: list[TraceRow]

    def _validated(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64, order="C")
        self._y_ndim = y.ndim
        return X, np.asarray(y, dtype=np.float64).reshape(len(y), -1)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Leave the estimator as it was where a fit fails or is interrupted: fitted before, or not at all."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _set_columns(self, n_features: int, names: list[str] | None, one_output: bool) -> None:
        """Remember the form of data that this process does not see."""
        self.n_features_in_ = n_features
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self._y_ndim = 1 if one_output else 2

    def _streams(self) -> Streams:
        """Give every random stage its own stream."""
        seeds = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=7)
        self._selection_seed, self._rule_seed = int(seeds[3]), int(seeds[4])
        self.choices_: dict[str, Any] = {}
        self.travelled_: Travelled = {}
        partition, training, communication, sample, calibration = (
            np.random.RandomState(seeds[k]) for k in (0, 1, 2, 5, 6)
        )
        return Streams(partition, training, communication, sample, calibration)

    def _opened_checkpoint(self, *data: Any) -> Checkpoint | None:
        """The file of steps, if there is to be one; `data` is what tells one table from another."""
        if self.checkpoint is None:
            return None
        if not isinstance(self.random_state, (int, np.integer)):
            raise ValueError(
                f"checkpoint needs an int as random_state, got {self.random_state!r}: a fit that is called "
                "again must draw the same rows to continue."
            )
        where = ("engine", "n_jobs", "verbose", "memory_budget", "checkpoint")
        settings = {
            name: np.asarray(value) if name == "partition" and labels_are_given(value) else repr(value)
            for name, value in self.get_params().items()
            if name not in where
        }
        return Checkpoint(self.checkpoint, joblib.hash((settings, *data)))

    def _fit_and_calibrate(self, X: np.ndarray, y: np.ndarray, streams: Streams) -> None:
        """Fit to most of the rows, and keep the others to ask how far the model is to be trusted."""
        held_out = draw_held_out(len(X), streams.calibration)
        given = kept_labels(self.partition, held_out) if labels_are_given(self.partition) else None
        self._fit_rows(X[~held_out], y[~held_out], streams, given)
        labels = np.full(len(X), HELD_OUT)
        labels[~held_out] = self.labels_
        self.labels_ = labels
        self._fitted_calibrate = self.calibrate
        self._held_out = self._x_scale.transform(X[held_out]), self._y_scale.transform(y[held_out])
        listeners().start("calibrating")
        self._calibration()

    def _fit_rows(
        self, X: np.ndarray, y: np.ndarray, streams: Streams, given: np.ndarray | None = None
    ) -> None:
        """Fit to validated rows of this process; `given` are their labels where `partition` has more."""
        if not self.standardize:
            check_magnitudes(X, y)
        aggregator = member(self.aggregation, AGGREGATORS, Aggregator, "aggregation")
        partition = self.partition if given is None else given
        least = least_rows(partition, self.n_experts, self.expert_size, aggregator, len(X))
        engine = self._engine()
        self._check_memory(engine, len(X), least)
        streams = streams._replace(checkpoint=self._opened_checkpoint(X, y))
        self._set_scales(Standardizer.fit(X), Standardizer.fit(y), (y == y[0]).all(axis=0), y[0])
        X, y = self._x_scale.transform(X), self._y_scale.transform(y)
        # Constant outputs have nothing to teach. Where all are, the kernel is kept as it is.
        teaches = self._varies if self._varies.any() else slice(None)
        candidates = candidate_kernels(self.kernel, X, y[:, teaches])

        if self.training == "full":
            covariance, scale = None, np.ones(X.shape[1])
        else:
            covariance = self._train_on_blocks(candidates, X, y[:, teaches], engine, streams)
            scale = covariance.length_scale(X.shape[1])
        listeners().start("cutting the data into parts")
        partition, scale = self._partitioner(scale)
        labels = deal_rows(
            X / scale,
            partition if given is None else given,
            self.n_experts,
            self.expert_size,
            aggregator,
            partition_rng=streams.partition,
            communication_rng=streams.communication,
        )
        self.labels_ = labels
        order = np.argsort(labels, kind="stable")
        shared_rows, own_rows = np.split(order, [int((labels < 0).sum())])
        sizes = np.bincount(labels[own_rows])
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        self._check_memory(engine, len(X), int(sizes.max()) + len(shared_rows))
        X_own, y_own = X[own_rows], y[own_rows]
        shared = (X[shared_rows], y[shared_rows]) if len(shared_rows) else None
        self._set_parts(sizes, centroids_of(X_own, offsets))

        if covariance is None:
            parts = [Block(X_own[a:b], y_own[a:b, teaches]) for a, b in pairwise(offsets)]
            if shared is not None:
                parts.append(Block(shared[0], shared[1][:, teaches]))
            covariance = self._train_on_parts(candidates, parts, X, y[:, teaches], engine, streams)
        self._report_training(covariance)
        self._experts = engine.place(
            Experts(
                X_own,
                y_own,
                offsets,
                covariance,
                shared=shared,
                factor_budget=self._factor_budget,
            ),
            self.travelled_,
            self.memory_budget,
        )
        self._ready(shared is not None)

    def _check_memory(self, engine: Engine, n: int, expert_rows: int) -> None:
        """Refuse, before the work, a fit whose largest expert has this many rows or more."""
        full = self.training == "full"
        check_memory(
            self.memory_budget,
            n=n,
            expert_rows=expert_rows,
            block_rows=expert_rows if full else largest_block(n),
            full=full,
            there=engine.worker_memory,
        )

    def _set_parts(self, sizes: np.ndarray, centroids: np.ndarray) -> None:
        self.n_experts_ = len(sizes)
        self._centroids = centroids
        self.centroids_ = self._x_scale.restore(centroids)
        self.choices_["n_experts"] = self.n_experts_
        listeners().say(1, f"{self.n_experts_} experts of {sizes.min()} to {sizes.max()} rows")

    def _ready(self, with_communication: bool) -> None:
        """Learn what predictions need besides the experts."""
        self.repairs_: dict[str, Any] = {
            "training_blocks_with_jitter": self.trace_[-1].jittered,
            "experts_with_jitter": self._experts.jitter,
            "queries_mended": 0,
        }
        self._fitted_with_communication = with_communication
        self._lock = threading.RLock()
        self._fitted_selector: tuple[Any, Selector] | None = None
        self._learned_rule: tuple[Any, Rule] | None = None
        self._fitted_calibrate = self._held_out = self._learned_calibration = None
        listeners().start("learning whom to ask")
        with self._asking_engine().counting(self.travelled_, "selection"):
            # So that a wrong K, or a selector that fails, is an error now and not at the first prediction.
            self._asked(self._centroids[:1], self._rule())
        self._tell_of_jittered_experts()

    def _set_scales(
        self, x_scale: Standardizer, y_scale: Standardizer, constant: np.ndarray, value: np.ndarray
    ) -> None:
        """Choose the units the kernel sees; outputs marked in `constant` have a single `value`."""
        if not self.standardize:
            x_scale = Standardizer.identity(len(x_scale.shift))
            y_scale = Standardizer.identity(len(y_scale.shift))
        if constant.any():
            which = "" if len(constant) == 1 else f" (output {', '.join(map(str, np.flatnonzero(constant)))})"
            warnings.warn(
                f"All training targets are equal{which}; the model predicts that value everywhere, "
                "with a standard deviation of about rounding.",
                ConstantTargetWarning,
                stacklevel=4,
            )
            size = np.where(value == 0, 1e-12, np.abs(value))
            rounding = np.maximum(np.finfo(float).eps * size, np.finfo(float).tiny)
            y_scale = Standardizer(
                np.where(constant, value, y_scale.shift), np.where(constant, rounding, y_scale.scale)
            )
        self._varies = ~constant
        self._x_scale, self._y_scale = x_scale, y_scale

    def _partitioner(self, learned: np.ndarray) -> tuple[Any, np.ndarray]:
        """What cuts the rows, and the length that counts as 1 in each input while it does."""
        if labels_are_given(self.partition):
            return self.partition, np.ones_like(learned)
        if self.partition == "auto":
            # Neighbours are those that the kernel takes for such, where it is known before the cut.
            units = "in the units the kernel sees" if self.training == "full" else "in the kernel's metric"
            self.choices_["partition"] = f"balanced, {units}"
            return PARTITIONERS["balanced"](), learned
        return member(self.partition, PARTITIONERS, Partitioner, "partition"), np.ones_like(learned)

    @property
    def _trainable(self) -> bool:
        return self.optimizer is not None and bool(self._varies.any())

    def _train_on_blocks(
        self,
        candidates: dict[str, Kernel],
        X: np.ndarray,
        y: np.ndarray,
        engine: Engine,
        streams: Streams,
        draw: BlockDrawer = sample_blocks,
    ) -> Covariance:
        """Train on small blocks from every region: the cost does not grow with the rows."""
        listeners().start("training on small blocks")
        with engine.counting(self.travelled_, "training"):
            staged = train_in_stages(
                candidates,
                X,
                y,
                engine,
                random_state=streams.training,
                n_restarts=self.n_restarts,
                trainable=self._trainable,
                on_step=self._report_step,
                say=lambda message: listeners().say(1, message),
                checkpoint=streams.checkpoint,
                draw=draw,
            )
        self.choices_["kernel"] = staged.choice
        self.choices_["training"] = staged.evidence
        self.trace_ = staged.trace
        return staged.covariance

    def _train_on_parts(
        self,
        candidates: dict[str, Kernel],
        parts: list[Block] | Held[Block],
        X: np.ndarray,
        y: np.ndarray,
        engine: Engine,
        streams: Streams,
        draw: BlockDrawer = sample_blocks,
    ) -> Covariance:
        """The paper's joint training on every part; blocks choose the kernel if it is to be chosen."""
        covariance = covariance_of(next(iter(candidates.values())))
        if len(candidates) > 1 and self._trainable:
            covariance = self._train_on_blocks(candidates, X, y, engine, streams, draw)
        listeners().start("training on every part")
        with engine.counting(self.travelled_, "training"):
            training = maximise_likelihood(
                covariance,
                parts,
                engine,
                n_restarts=self.n_restarts,
                random_state=streams.training,
                max_steps=200 if self._trainable else 0,
                on_step=self._report_step,
                checkpoint=streams.checkpoint,
            )
        self.trace_ = training.trace
        return training.covariance

    def _report_training(self, covariance: Covariance) -> None:
        self.kernel_ = covariance.kernel
        self.log_marginal_likelihood_value_ = self.trace_[-1].log_marginal_likelihood
        listeners().say(1, f"kernel: {self.kernel_}")
        if self._trainable:
            warn_of_bounds(self.kernel_, irrelevance_is_news=isinstance(self.kernel, Kernel))
        self._jitter_is_told = self.trace_[-1].jittered > 0
        if self._jitter_is_told:
            warn_of_jitter(f"{self.trace_[-1].jittered} training blocks")

    def _report_step(self, row: TraceRow) -> None:
        listeners().advance(1, f"log likelihood {row.log_marginal_likelihood:.6g}, {row.seconds:.1f} s")
