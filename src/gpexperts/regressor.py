"""The estimator: composes the stages, holds no formulas."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Literal, NamedTuple, overload

import joblib
import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from gpexperts.aggregation import AGGREGATORS, NPAE, Aggregator
from gpexperts.engines import Engine, Held, ThreadEngine
from gpexperts.engines.dask import DaskEngine, engine_for, is_collection, portable
from gpexperts.exceptions import ConstantTargetWarning, RefitRequiredError, RepairWarning
from gpexperts.experts.checkpoint import Checkpoint
from gpexperts.experts.kernels import Covariance, candidate_kernels, covariance_of
from gpexperts.experts.local import Experts
from gpexperts.experts.staged import train_in_stages
from gpexperts.experts.training import Block, TraceRow, maximise_likelihood, warn_of_bounds
from gpexperts.explanation import Explanation
from gpexperts.holdout import Rule, learn_rule
from gpexperts.moments import ExpertMoments, Prediction
from gpexperts.partition import PARTITIONERS, Partitioner
from gpexperts.partition.base import centroids_of
from gpexperts.partition.deal import deal_rows, labels_are_given
from gpexperts.prediction import gather_moments, predict_in_batches
from gpexperts.progress import CallbackSupport, announced, listeners
from gpexperts.selection import SELECTORS, ClassifierSelector, ExpertsView, KNNSelector, Selector
from gpexperts.selection.base import checked_index
from gpexperts.settings import bytes_of, member, number_selected
from gpexperts.standardize import Standardizer

__all__ = ["DistributedGPRegressor"]

_WORK_BYTES = 256 * 1024**2
"""Work arrays of a batch take no more than this, however large the budget: larger ones are no faster."""


class DistributedGPRegressor(CallbackSupport, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression by local experts, chosen per query and combined with their correlations.

    The data are cut into parts. Each part is an expert: a GP on its rows, all sharing one set of
    hyperparameters. A query asks the few experts that matter to it, and their answers are combined
    knowing how they correlate (NPAE), or by one of the simpler rules.

    Parameters
    ----------
    n_experts : int or "auto"
        M, the number of experts. 1 is the exact GP, which is also what "auto" takes for up to 3,000 rows.
    expert_size : int or "auto"
        Rows per expert, from which M follows; give one of the two.
    partition : {"auto", "random", "kmeans", "balanced"}, Partitioner or array of int, shape (n,)
        How rows are dealt to experts, or the labels themselves. "auto" is balanced in the metric that the
        kernel has learned (with ``training="full"``, where parts come first: of the standardised inputs).
    kernel : {"auto", "rbf", "matern12", "matern32", "matern52"} or scikit-learn kernel
        A name stands for constant × shape(one length scale per input) + white noise; "auto" lets the
        likelihood choose among the four. In a kernel of your own the noise is the WhiteKernel terms
        of the top-level sum. With `standardize` it is in standardised units.
    optimizer : {"lbfgs", None}
        None keeps the kernel's hyperparameters.
    n_restarts : int
        Further starts of the optimiser.
    training : {"auto", "full"}
        "auto" trains on small blocks of rows from every region, at a cost that does not grow with n;
        ``"full"`` is the paper's joint training on every part.
    selection : {"auto", "all", "ggm", "knn", "dnn"}, Selector or classifier with predict_proba
        How a query finds its experts; "auto" is knn in the kernel's metric.
    n_selected : int, float or "auto"
        K, the experts asked per query; a float is the ratio K/M, so that 1 is one expert and 1.0 all.
        "auto" lets held-out rows choose K, whom to leave out, and NPAE's `widen`.
    aggregation : {"npae", "poe", "gpoe", "bcm", "rbcm", "grbcm"} or Aggregator
        How answers are combined.
    standardize : bool
        Whether inputs and target are brought to zero mean and unit variance.
    memory_budget : int, str or "auto"
        Bytes (or "4GiB") for kept factors and work arrays; "auto" is a quarter of the machine's memory.
    engine : None, "dask", str, dask.distributed.Client or Engine
        Where the work runs; None is threads of this machine. ``"dask"`` is the current Dask client, or a
        new LocalCluster; a str is the address of a scheduler, such as ``"tcp://host:8786"``. A Client is
        kept as its address.
    n_jobs : int or None
        Threads; None is all usable cores, or 1 inside another worker.
    random_state : int, RandomState or None
    verbose : int
        1 tells what is being decided and done, 2 every step. scikit-learn's callbacks hear the same
        (`set_callbacks`, scikit-learn 1.9 or newer).
    checkpoint : str, path-like or None
        A file that keeps θ after every step of training. Where a fit was cut short, the same fit called
        again continues at its last step; `random_state` must then be an int.
    share_inputs : bool
        False is for dask collections whose rows may not be pooled: each block is cut into parts by the
        worker that loads it, and only likelihoods and their gradients, centroids, means and variances leave
        that worker. For ``"poe"``, ``"gpoe"``, ``"bcm"`` and ``"rbcm"``, with ``"knn"`` or ``"all"``.

    Attributes
    ----------
    kernel_ : Kernel
        The trained kernel; in standardised units if `standardize`.
    n_experts_ : int
    labels_ : ndarray of int, shape (n,)
        Expert of each training row; −1 for the rows that GRBCM shares.
    centroids_ : ndarray of shape (n_experts_, n_features_in_)
        Mean input of each expert.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Where X had column names.
    log_marginal_likelihood_value_ : float
        What training reached.
    trace_ : list of TraceRow
        The steps of training.
    choices_ : dict
        What every "auto" was resolved to, and on what evidence.
    repairs_ : dict
        What numerics had to mend: jitter in training, jitter per expert, mended queries.

    Examples
    --------
    >>> import numpy as np
    >>> from gpexperts import DistributedGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 1))
    >>> y = np.sin(10 * X[:, 0]) + 0.1 * rng.standard_normal(300)
    >>> model = DistributedGPRegressor(n_experts=4, random_state=0).fit(X, y)
    >>> mean, std = model.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(5)) < 0.1)
    True
    """

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

    # ---------------------------------------------------------------------------------------- fit

    @announced
    def fit(self, X: Any, y: Any) -> DistributedGPRegressor:
        """Cut the data into parts, train the shared hyperparameters, and prepare the selection.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,) or (n, n_outputs)
            Several outputs share the parts and the hyperparameters.

        Returns
        -------
        self
        """
        self._check_settings()
        self.__dict__.pop("table_", None)  # what a model file said of the former training rows
        if is_collection(X) and isinstance(engine := self._engine(), DaskEngine):
            from gpexperts.cluster.fitting import fit_collection
            from gpexperts.cluster.private import fit_private

            (fit_collection if self.share_inputs else fit_private)(self, X, y, engine)
            return self
        if not self.share_inputs:
            raise ValueError(
                "share_inputs=False is for dask arrays and frames and engine='dask': rows that are in this "
                "process have been pooled already."
            )
        X, y = self._validated(X, y)
        self._fit_rows(X, y, self._streams())
        return self

    def _validated(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype=np.float64, order="C")
        self._y_ndim = y.ndim
        return X, np.asarray(y, dtype=np.float64).reshape(len(y), -1)

    def _set_columns(self, n_features: int, names: list[str] | None, one_output: bool) -> None:
        """Remember the form of data that this process does not see."""
        self.n_features_in_ = n_features
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self._y_ndim = 1 if one_output else 2

    def _streams(self) -> _Streams:
        """Give every random stage its own stream."""
        seeds = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=6)
        self._selection_seed, self._rule_seed = int(seeds[3]), int(seeds[4])
        self.choices_: dict[str, Any] = {}
        partition, training, communication, sample = (np.random.RandomState(seeds[k]) for k in (0, 1, 2, 5))
        return _Streams(partition, training, communication, sample)

    def _opened_checkpoint(self, X: np.ndarray, y: np.ndarray) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        if not isinstance(self.random_state, (int, np.integer)):
            raise ValueError(
                f"checkpoint needs an int as random_state, got {self.random_state!r}: a fit that is called "
                "again must draw the same rows to continue."
            )
        every = max(1, len(X) // 1000)
        where = ("engine", "n_jobs", "verbose", "memory_budget", "checkpoint")
        settings = {name: repr(value) for name, value in self.get_params().items() if name not in where}
        return Checkpoint(self.checkpoint, joblib.hash((settings, X.shape, X[::every], y[::every])))

    def _fit_rows(self, X: np.ndarray, y: np.ndarray, streams: _Streams) -> None:
        """Fit to validated rows of this process."""
        streams = streams._replace(checkpoint=self._opened_checkpoint(X, y))
        self._set_scales(Standardizer.fit(X), Standardizer.fit(y), (y == y[0]).all(axis=0), y[0])
        X, y = self._x_scale.transform(X), self._y_scale.transform(y)
        engine = self._engine()
        aggregator = member(self.aggregation, AGGREGATORS, Aggregator, "aggregation")
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
            partition,
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
            )
        )
        self._ready(shared is not None)

    def _set_parts(self, sizes: np.ndarray, centroids: np.ndarray) -> None:
        self.n_experts_ = len(sizes)
        self._centroids = centroids
        self.centroids_ = self._x_scale.restore(centroids)
        self.choices_["n_experts"] = self.n_experts_
        self._say(1, f"{self.n_experts_} experts of {sizes.min()} to {sizes.max()} rows")

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
        listeners().start("learning whom to ask")
        self._rule()  # so that a wrong K is an error now, not at the first prediction

    def _check_settings(self) -> None:
        bytes_of(self.memory_budget)  # refuses what is not a size
        if self.optimizer not in ("lbfgs", None):
            raise ValueError(f"optimizer must be 'lbfgs' or None, got {self.optimizer!r}.")
        if self.training not in ("auto", "full"):
            raise ValueError(f"training must be 'auto' or 'full', got {self.training!r}.")
        if isinstance(self.n_restarts, bool) or not isinstance(self.n_restarts, (int, np.integer)):
            raise TypeError(f"n_restarts must be an int, got {self.n_restarts!r}.")
        if self.n_restarts < 0:
            raise ValueError(f"n_restarts must be at least 0, got {self.n_restarts}.")

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
            rounding = np.finfo(float).eps * np.maximum(np.abs(value), 1e-12)
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
            self.choices_["partition"] = "balanced, in the kernel's metric"
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
        streams: _Streams,
    ) -> Covariance:
        """Train on small blocks from every region: the cost does not grow with the rows."""
        listeners().start("training on small blocks")
        staged = train_in_stages(
            candidates,
            X,
            y,
            engine,
            random_state=streams.training,
            n_restarts=self.n_restarts,
            trainable=self._trainable,
            on_step=self._report_step,
            say=lambda message: self._say(1, message),
            checkpoint=streams.checkpoint,
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
        streams: _Streams,
    ) -> Covariance:
        """The paper's joint training on every part; blocks choose the kernel if it is to be chosen."""
        covariance = covariance_of(next(iter(candidates.values())))
        if len(candidates) > 1 and self._trainable:
            covariance = self._train_on_blocks(candidates, X, y, engine, streams)
        listeners().start("training on every part")
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
        self._say(1, f"kernel: {self.kernel_}")
        if self._trainable:
            warn_of_bounds(self.kernel_, irrelevance_is_news=isinstance(self.kernel, Kernel))
        if self.trace_[-1].jittered:
            warnings.warn(
                f"{self.trace_[-1].jittered} training blocks needed jitter to be factorised at the trained "
                "hyperparameters (repairs_ counts them). The noise is very small or rows are repeated; "
                "predictions are sound, but a WhiteKernel with a larger lower bound is safer.",
                RepairWarning,
                stacklevel=3,
            )

    # ------------------------------------------------------------------------------------ predict

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False, latent: bool = False) -> np.ndarray: ...
    @overload
    def predict(
        self, X: Any, return_std: Literal[True], latent: bool = False
    ) -> tuple[np.ndarray, np.ndarray]: ...
    @announced
    def predict(
        self, X: Any, return_std: bool = False, latent: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict at new inputs.

        Parameters
        ----------
        X : array-like of shape (n, d)
        return_std : bool
            Whether to return standard deviations too.
        latent : bool
            Whether they are those of the noise-free function instead of a new observation.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, n_outputs)
        std : ndarray of the same shape, if `return_std`
        """
        check_is_fitted(self)
        if is_collection(X) and not isinstance(self._experts, Experts):
            from gpexperts.cluster.predicting import predict_collection

            return predict_collection(self, self._experts, X, return_std=return_std, latent=latent)
        X = self._queries(X)
        n, p = len(X), self._experts.n_outputs
        mean, var = np.empty((n, p)), np.empty((n, p))
        rule = self._rule()
        index = self._asked(X, rule)
        if index.shape[1] == 1 and not return_std and self._aggregator().trusts_a_lone_expert:
            mean[:] = self._means(X, index)[:, 0]  # a lone expert's mean is the answer
        else:
            for rows, _, prediction in self._batches(X, index, rule):
                mean[rows] = prediction.mean
                var[rows] = self._variance(prediction, latent)
        mean = self._shaped(self._y_scale.restore(mean))
        return (mean, self._shaped(np.sqrt(var) * self._y_scale.scale)) if return_std else mean

    def select(self, X: Any) -> np.ndarray:
        """Return the experts each query asks, best first.

        Returns
        -------
        index : ndarray of int, shape (n, K)
            −1 pads where K varies.
        """
        X = self._queries(X)
        rule = self._rule()
        index = self._asked(X, rule)
        if rule.prune > 0:
            for rows, moments, _ in self._batches(X, index.copy(), rule):
                index[rows] = moments.index
        return index

    @announced
    def explain(self, X: Any) -> Explanation:
        """Return who was asked about each query, what each said, and the weight each got.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        Explanation
        """
        X = self._queries(X)
        n, p = len(X), self._experts.n_outputs
        rule = self._rule()
        index = self._asked(X, rule)
        K = index.shape[1]
        mean, var = np.empty((n, p)), np.empty((n, p))
        said, said_var, weight = np.empty((n, K, p)), np.empty((n, K)), np.zeros((n, K))
        with_communication = self._fitted_with_communication
        communication_said = np.empty((n, p)) if with_communication else None
        communication_weight = np.zeros(n) if with_communication else None
        for rows, moments, prediction in self._batches(X, index.copy(), rule):
            index[rows] = moments.index
            mean[rows] = prediction.mean
            var[rows] = self._variance(prediction, latent=False)
            said[rows], said_var[rows] = moments.mean, moments.var
            weight[rows] = prediction.weight
            if communication_said is not None and communication_weight is not None:
                communication_said[rows] = moments.communication_mean
                communication_weight[rows] = prediction.communication_weight
        others = weight.sum(axis=1) + (0.0 if communication_weight is None else communication_weight)
        restore, scale = self._y_scale.restore, self._y_scale.scale
        return Explanation(
            experts=index,
            said=self._shaped(restore(said)),
            said_std=self._shaped(np.sqrt(said_var)[:, :, None] * scale),
            weight=weight,
            prior_weight=1.0 - others,
            prior_mean=self._y_scale.shift if self._y_ndim > 1 else self._y_scale.shift[0],
            mean=self._shaped(restore(mean)),
            std=self._shaped(np.sqrt(var) * scale),
            communication_said=None
            if communication_said is None
            else self._shaped(restore(communication_said)),
            communication_weight=communication_weight,
        )

    def _queries(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, order="C", ensure_min_samples=0)
        return self._x_scale.transform(X)

    def _asked(self, X: np.ndarray, rule: Rule) -> np.ndarray:
        return checked_index(self._selector().select(X, rule.n_selected), len(X), self.n_experts_)

    def _batches(
        self, X: np.ndarray, index: np.ndarray, rule: Rule
    ) -> Iterator[tuple[np.ndarray, ExpertMoments, Prediction]]:
        aggregator = self._combining(rule)
        listeners().start("asking the experts", len(X))
        for rows, moments, prediction in predict_in_batches(
            self._experts,
            aggregator,
            X,
            index,
            self._asking_engine(),
            budget=self._work_budget,
            prune=rule.prune,
            on_batch=listeners().advance,
        ):
            if prediction.repaired:
                with self._lock:
                    self.repairs_["queries_mended"] += prediction.repaired
            yield rows, moments, prediction

    def _variance(self, prediction: Prediction, latent: bool) -> np.ndarray:
        """(n, p), of the function or of a new observation, in the units the kernel sees."""
        if latent:
            return np.broadcast_to(prediction.var[:, None], prediction.mean.shape)
        return prediction.observation_var(self._experts.covariance.noise_variance)

    @property
    def _factor_budget(self) -> int:
        budget = bytes_of(self.memory_budget)
        return max(budget - _WORK_BYTES, budget // 2)

    @property
    def _work_budget(self) -> int:
        return min(_WORK_BYTES, bytes_of(self.memory_budget) // 4)

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        """Drop the outputs' axis where the training target had none."""
        return values if self._y_ndim > 1 else values[..., 0]

    # -------------------------------------------------------------------------------------- stages

    def _engine(self) -> Engine:
        if self.engine is None:
            return ThreadEngine(self.n_jobs)
        if isinstance(self.engine, Engine):
            return self.engine
        return engine_for(self.engine)

    def _asking_engine(self) -> Engine:
        """Where experts are asked: those of a model that was brought home are asked here."""
        engine = self._engine()
        at_home = isinstance(engine, DaskEngine) and isinstance(self._experts, Experts)
        return ThreadEngine(self.n_jobs) if at_home else engine

    def _aggregator(self) -> Aggregator:
        """The rule for the current setting, if the fitted experts can serve it."""
        if not self.share_inputs:
            from gpexperts.cluster.private import check_private_settings

            check_private_settings(self)
        aggregator = member(self.aggregation, AGGREGATORS, Aggregator, "aggregation")
        if self._fitted_with_communication != aggregator.needs_communication:
            need, have = ("needs", "without") if aggregator.needs_communication else ("cannot use", "with")
            raise RefitRequiredError(
                f"aggregation={self.aggregation!r} {need} a communication set, but the experts were fitted "
                f"{have} one. Call fit again with this setting."
            )
        return aggregator

    def _combining(self, rule: Rule) -> Aggregator:
        """The rule for the current setting, with what held-out rows said of it."""
        aggregator = self._aggregator()
        if isinstance(aggregator, NPAE) and aggregator.widen == "auto":
            return NPAE(aggregator.nugget, widen=rule.widen)
        return aggregator

    def _selector(self) -> Selector:
        """The fitted selector for the current setting; fitted anew where the setting has changed."""
        key = _setting_key(self.selection)
        with self._lock:
            if self._fitted_selector is None or self._fitted_selector[0] != key:
                self._fitted_selector = (key, self._new_selector().fit(self._experts_view()))
            return self._fitted_selector[1]

    def _new_selector(self) -> Selector:
        if isinstance(self.selection, str) and self.selection == "auto":
            self.choices_["selection"] = "knn in the kernel's metric"
            return KNNSelector(metric="kernel")
        if not isinstance(self.selection, (str, Selector)) and hasattr(self.selection, "predict_proba"):
            return ClassifierSelector(self.selection)
        if hasattr(self.selection, "fit") and not isinstance(self.selection, Selector):
            raise TypeError(
                f"The classifier selection={self.selection!r} has no predict_proba to rank experts."
            )
        return clone(member(self.selection, SELECTORS, Selector, "selection"))

    def _experts_view(self) -> ExpertsView:
        experts = self._experts
        X, labels = experts.sample
        return ExpertsView(
            X=X,
            labels=labels,
            centroids=self._centroids,
            length_scale=experts.covariance.length_scale(X.shape[1]),
            means_at=self._means_of_all,
            transform=lambda X: self._x_scale.transform(np.asarray(X, dtype=float)),
            random_state=np.random.RandomState(self._selection_seed),
        )

    def _means_of_all(self, X: np.ndarray) -> np.ndarray:
        everyone = np.tile(np.arange(self.n_experts_), (len(X), 1))
        return self._means(X, everyone)[:, :, 0]

    def _means(self, X: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Means (n, K, p) of the experts of `index` (n, K); no variance is paid for."""
        experts, engine = self._experts, self._asking_engine()
        mean = np.empty((*index.shape, experts.n_outputs))
        step = max(16, self._work_budget // (8 * int(experts.sizes.max())))
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            mean[rows] = gather_moments(
                experts, X[rows], index[rows], engine, covariance=False, variance=False
            ).mean
        return mean

    def _rule(self) -> Rule:
        """How many experts a query asks: what the user said, or what held-out rows say."""
        selector = self._selector()
        if not (isinstance(self.n_selected, str) and self.n_selected == "auto"):
            given = None
            if isinstance(self.n_experts, (int, np.integer)):
                given = max(int(self.n_experts), self.n_experts_)
            elif labels_are_given(self.partition):
                given = self.n_experts_
            return Rule(number_selected(self.n_selected, self.n_experts_, given=given))
        # Held-out rows would have to travel to the experts of others.
        if not selector.varies or self.n_experts_ == 1 or not self.share_inputs:
            return Rule(selector.default_n_selected(self.n_experts_))
        key = _setting_key(self.selection), _setting_key(self.aggregation)
        with self._lock:
            if self._learned_rule is None or self._learned_rule[0] != key:
                self._learned_rule = key, self._learn_rule(selector)
            return self._learned_rule[1]

    def _learn_rule(self, selector: Selector) -> Rule:
        learned = learn_rule(
            self._experts,
            selector.select,
            self._aggregator(),
            self._asking_engine(),
            budget=self._work_budget,
            random_state=np.random.RandomState(self._rule_seed),
        )
        if learned is None:
            return Rule(selector.default_n_selected(self.n_experts_))
        rule, evidence = learned
        self.choices_["n_selected"] = {**rule._asdict(), **evidence}
        self._say(
            1,
            f"at most {rule.n_selected} experts per query, by the density of {evidence['queries']} held-out "
            f"rows; pruned at {rule.prune:g} of the best one's explained variance; widening {rule.widen}",
        )
        return rule

    # --------------------------------------------------------------------------------------- chores

    def save(self, path: str | os.PathLike[str], *, include_factors: bool = False) -> int:
        """Save the fitted model to one file, which `gpexperts.load` reads and which cannot run code.

        Parameters
        ----------
        path : str or path-like
            By custom it ends in ``.gpx``. It is written beside, then renamed: never half there.
        include_factors : bool
            Whether to store the experts' Cholesky factors too, up to the memory budget: the file grows
            by 8·Σ m_i² bytes, and the loaded model need not compute them at its first predictions.

        Returns
        -------
        size : int
            Bytes of the file.

        Raises
        ------
        UnsavableModelError
            If a part of the model is not one of this library's, by name; skops saves such models.
        """
        from gpexperts.persistence import save

        on_cluster = not isinstance(self.__dict__.get("_experts"), (Experts, type(None)))
        return save(self.to_local() if on_cluster else self, path, include_factors=include_factors)

    def to_local(self) -> DistributedGPRegressor:
        """Return this model with its experts in this process, where it was fitted on a cluster.

        All training rows come here, so they must fit into memory.

        Returns
        -------
        model : DistributedGPRegressor
            With ``engine=None``; this one is left as it is.
        """
        check_is_fitted(self)
        state = self.__getstate__()
        state["engine"] = None
        model = type(self)()
        model.__setstate__(state)
        return model

    def _say(self, level: int, message: str) -> None:
        listeners().say(level, message)

    def _report_step(self, row: TraceRow) -> None:
        listeners().advance(1, f"log likelihood {row.log_marginal_likelihood:.6g}, {row.seconds:.1f} s")

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state = dict(state)
        state.pop("_lock", None)
        if "_experts" in state and not isinstance(self._experts, Experts):  # futures cannot be pickled
            state["_experts"] = self._experts.to_local(self._factor_budget)
        return state

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, portable(value) if name == "engine" else value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_experts" in self.__dict__:
            self._lock = threading.RLock()
            self.repairs_["experts_with_jitter"] = self._experts.jitter


class _Streams(NamedTuple):
    """One source of randomness for each stage, so that none depends on how much another draws."""

    partition: np.random.RandomState
    training: np.random.RandomState
    communication: np.random.RandomState
    sample: np.random.RandomState
    """For rows drawn from a dask collection."""
    checkpoint: Checkpoint | None = None
    """Where training is written down, for the same streams to be gone through again."""


def _setting_key(setting: Any) -> Any:
    """Something equal for equal settings: a name, or a class with a hash of its parameters."""
    if hasattr(setting, "get_params"):
        return type(setting), joblib.hash(setting.get_params())
    return setting
