"""The estimator: what users call."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from gpexperts.engines.clients import is_collection
from gpexperts.engines.dask import DaskEngine
from gpexperts.experts.local import Experts
from gpexperts.explanation import Explanation
from gpexperts.fitting import Fitting
from gpexperts.progress import CallbackSupport, announced

__all__ = ["DistributedGPRegressor"]


class DistributedGPRegressor(CallbackSupport, MultiOutputMixin, RegressorMixin, Fitting):
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
        likelihood and the leave-one-out error of the same rows choose among the four. In a kernel of your
        own the noise is the WhiteKernel terms of the top-level sum. With `standardize` it is in standardised
        units.
    optimizer : {"lbfgs", None}
        None keeps the kernel's hyperparameters.
    n_restarts : int
        Further starts of the optimiser.
    training : {"auto", "full"}
        "auto" trains on small blocks of rows from every region, at a cost that does not grow with n;
        ``"full"`` is the paper's joint training on every part.
    selection : {"auto", "rows", "knn", "dnn", "ggm", "all"}, Selector or classifier with predict_proba
        How a query finds its experts; "auto" asks those who own the rows nearest to it, in the metric the
        kernel has learned.
    n_selected : int, float or "auto"
        K, the experts asked per query; a float is the ratio K/M, so that 1 is one expert and 1.0 all.
        "auto" lets held-out rows choose K, whom to leave out, and NPAE's `widen`, `scale` and `surprise`.
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
        worker that loads it, and only likelihoods, gradients, centroids, means and variances leave that
        worker. For ``"poe"``, ``"gpoe"``, ``"bcm"`` and ``"rbcm"``, with ``"knn"``, ``"dnn"`` or ``"all"``.
    calibrate : {None, "scale", "conformal"}
        Whether intervals are corrected by rows that the model has not seen: a tenth of the rows, from 100 to
        2,000 but at most a quarter, drawn at random, is held out before anything is learned and stays out
        of the experts. ``"scale"`` multiplies the variance of an observation by one number per output, the
        one that makes the held-out targets likeliest; `predict` returns the scaled std, the latent one is
        left alone. ``"conformal"`` leaves std alone and takes the widths of `predict_interval` from the
        quantiles of |y − mean|/std (split conformal prediction): whatever is wrong with the model, an
        interval holds its target with at least the probability `level`, on average over new rows drawn like
        the training rows, for each output by itself. Neither is to be had for dask collections.

    Attributes
    ----------
    kernel_ : Kernel
        The trained kernel; in standardised units if `standardize`.
    n_experts_ : int
    labels_ : ndarray of int, shape (n,)
        Expert of each training row; −1 for the rows that GRBCM shares, −2 for those that `calibrate` holds
        out.
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
    travelled_ : dict
        On a cluster, by stage: bytes that this process sent and fetched, bytes exchanged between tasks,
        round trips and tasks. Empty where everything ran here.

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
        with self._all_or_nothing():
            self._fit(X, y)
        return self

    def _fit(self, X: Any, y: Any) -> None:
        self._check_settings()
        self.__dict__.pop("table_", None)  # what a model file said of the former training rows
        if self.calibrate is not None and (is_collection(X) or not self.share_inputs):
            raise ValueError(
                f"calibrate={self.calibrate!r} cannot be had for dask collections: it holds rows out of all "
                "blocks. Use calibrate=None, or arrays of this process."
            )
        if is_collection(X) and isinstance(engine := self._engine(), DaskEngine):
            from gpexperts.cluster.fitting import fit_collection
            from gpexperts.cluster.private import fit_private

            (fit_collection if self.share_inputs else fit_private)(self, X, y, engine)
            return
        if not self.share_inputs:
            raise ValueError(
                "share_inputs=False is for dask arrays and frames and engine='dask': rows that are in this "
                "process have been pooled already."
            )
        X, y = self._validated(X, y)
        (self._fit_rows if self.calibrate is None else self._fit_and_calibrate)(X, y, self._streams())

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
            Whether they are those of the noise-free function instead of a new observation. Only the latter's
            are changed by ``calibrate="scale"``.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, n_outputs)
        std : ndarray of the same shape, if `return_std`
        """
        check_is_fitted(self)
        self._check_calibrate()
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
        self._tell_of_jittered_experts()
        mean = self._shaped(self._y_scale.restore(mean))
        return (mean, self._shaped(np.sqrt(var) * self._y_scale.scale)) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that hold a new observation with the given probability.

        Without `calibrate` and with ``"scale"`` they are the central intervals of the Gaussian that `predict`
        gives: as honest as the model. With ``"conformal"`` the probability is promised for any model.

        Parameters
        ----------
        X : array-like of shape (n, d)
        level : float
            The probability, strictly between 0 and 1.

        Returns
        -------
        lower, upper : ndarray of shape (n,) or (n, n_outputs)

        Raises
        ------
        TooFewRowsError
            With ``calibrate="conformal"``, if fewer than level / (1 − level) rows were held out.
        """
        check_is_fitted(self)
        width = self._width(level)
        mean, std = self.predict(X, return_std=True)
        return mean - width * std, mean + width * std

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
        self._check_calibrate()
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
        self._tell_of_jittered_experts()
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

    def save(self, path: str | os.PathLike[str], *, include_factors: bool = False) -> int:
        """Save the fitted model to one file, which `gpexperts.load` reads and which cannot run code.

        Parameters
        ----------
        path : str or path-like
            By custom it ends in ``.gpx``. It is written beside, then renamed: never half there.
        include_factors : bool
            Whether to store the experts' Cholesky factors too, up to the memory budget: the file grows
            by 8·Σ m_i² bytes, and the loaded model need not compute them at its first predictions. A
            model on a cluster comes to this process for that; without, its rows are written as they come.

        Returns
        -------
        size : int
            Bytes of the file.

        Raises
        ------
        UnsavableModelError
            If a part of the model is not one of this library's, by name; skops saves such models.
        """
        from gpexperts.io import save

        return save(self, path, include_factors=include_factors)

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
        for name in ("choices_", "repairs_", "travelled_"):  # what one model learns is not news to the other
            state[name] = copy.deepcopy(state[name])
        model = type(self)()
        model.__setstate__(state)
        return model

    def __getstate__(self) -> dict[str, Any]:
        return self._state(lambda there: there.to_local(self._factor_budget))

    def _state(self, bring: Callable[[Any], Experts]) -> dict[str, Any]:
        """What there is to this model, with the experts of a cluster as `bring` brings them."""
        state = dict(super().__getstate__())
        state.pop("_lock", None)
        if "_experts" in state and not isinstance(self._experts, Experts):  # futures cannot be pickled
            state["_experts"] = bring(self._experts)
        fitted = state.get("_fitted_selector")
        if fitted is not None and isinstance(self._experts, Experts) and fitted[1].repeats(self._experts.X):
            state["_fitted_selector"] = None  # made again when it is needed
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_experts" in self.__dict__:
            self._lock = threading.RLock()
            self.repairs_["experts_with_jitter"] = self._experts.jitter
