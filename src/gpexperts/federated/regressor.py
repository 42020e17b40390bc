"""The estimator of a federation: scikit-learn's manners over a Flower Grid."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from flwr.serverapp import Grid
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y

from gpexperts.choices import Choice
from gpexperts.explanation import Explanation
from gpexperts.federated.experts import FederatedExperts
from gpexperts.federated.federation import Federation
from gpexperts.federated.fitting import Fitted, fit_federation
from gpexperts.federated.log import MessageLog
from gpexperts.federated.privacy import Privacy, PrivacySpent
from gpexperts.federated.settings import FEDERATED_PARAMETERS, MAX_STEPS, FederatedSettings
from gpexperts.kernels.raw import kernel_in_user_units
from gpexperts.parameters import documented
from gpexperts.predictor import Predictor

__all__ = ["FederatedGPRegressor"]


@documented(FEDERATED_PARAMETERS)
class FederatedGPRegressor(RegressorMixin, BaseEstimator):
    """Gaussian process regression with experts that stay with the owners of their rows.

    The clients of a Flower Grid hold the rows. They train θ together, keep their experts, and answer queries
    with means and variances. See docs/federated.md for what travels and what is promised.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    kernel_ : Kernel
        The trained kernel: lengths in the units of X, variances in those of y².
    n_experts_ : int
    clients_ : dict of int to int
        Training rows of each client that took part.
    experts_of_ : dict of int to ndarray
        Experts of each client.
    log_ : MessageLog
        Every message by kind and bytes, and what went wrong.
    n_steps_ : int
        Joint steps for θ.
    absent_ : set of int
        Clients that did not answer the last queries; the next best experts have taken their places.
    privacy_ : PrivacySpent or None
    choices_ : dict of str to Choice
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from gpexperts.federated import ClientRows, FederatedGPRegressor, LocalGrid, client_app
    >>> rng = np.random.default_rng(0)
    >>> def rows(low):
    ...     X = rng.uniform(low, low + 1, size=(100, 1))
    ...     return ClientRows(X, np.sin(5 * X[:, 0]) + 0.1 * rng.standard_normal(100))
    >>> grid = LocalGrid([client_app(rows(low)) for low in (0, 1, 2)])
    >>> model = FederatedGPRegressor(kernel="rbf", random_state=0).fit(grid)
    >>> mean, std = model.predict([[1.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(7.5)) < 0.2)
    True
    """

    def __init__(
        self,
        *,
        kernel: str = "auto",
        expert_size: int | str = "auto",
        aggregation: str = "gpoe",
        selection: str = "auto",
        n_selected: int | float | str = "auto",
        calibrate: str | None = "conformal",
        max_steps: int = MAX_STEPS,
        secure_sum: bool | str = True,
        privacy: Privacy | None = None,
        min_clients: int = 3,
        timeout: float = 300.0,
        network_rounds: int = 20,
        network_epochs: int = 2,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.expert_size = expert_size
        self.aggregation = aggregation
        self.selection = selection
        self.n_selected = n_selected
        self.calibrate = calibrate
        self.max_steps = max_steps
        self.secure_sum = secure_sum
        self.privacy = privacy
        self.min_clients = min_clients
        self.timeout = timeout
        self.network_rounds = network_rounds
        self.network_epochs = network_epochs
        self.random_state = random_state

    def fit(self, grid: Grid, communication: tuple[Any, Any] | None = None) -> Self:
        """Train with the clients of a Grid.

        Parameters
        ----------
        grid : Grid
            Flower's, as a ServerApp gets it, or a `LocalGrid`.
        communication : tuple of array-like, optional
            Inputs (n, d) and targets (n,) or (n, p) of GRBCM's communication set. All clients see them: they
            must be public or synthetic.

        Returns
        -------
        self

        Raises
        ------
        FederationError
            If fewer than `min_clients` clients are left.
        """
        if not isinstance(grid, Grid):
            raise TypeError(
                f"fit takes a Flower Grid or a LocalGrid, got {type(grid).__name__}: clients hold the rows."
            )
        settings = FederatedSettings.of(self.get_params(deep=False))
        shared = _communication(communication, self.aggregation)
        log = MessageLog()
        federation = Federation(grid, timeout=settings.timeout, min_clients=settings.min_clients, log=log)
        fitted = fit_federation(federation, settings, shared)
        self._fitted, self.log_ = fitted, log
        self._predictor = Predictor(
            fitted.model,
            fitted.settings,
            fitted.selector,
            fitted.tuning,
            fitted.choices,
            None,
            fitted.calibration,
        )
        self.n_features_in_ = fitted.model.experts.n_features
        self.__dict__.pop("feature_names_in_", None)
        if fitted.columns:
            self.feature_names_in_ = np.array(fitted.columns, dtype=object)
        return self

    # ------------------------------------------------------------------------- fitted attributes

    def __sklearn_is_fitted__(self) -> bool:
        return "_predictor" in self.__dict__

    @property
    def _experts(self) -> FederatedExperts:
        check_is_fitted(self)
        experts = self._fitted.model.experts
        assert isinstance(experts, FederatedExperts)
        return experts

    @property
    def fitted_(self) -> Fitted:
        """The model, the selector and what was chosen."""
        check_is_fitted(self)
        return self._fitted

    @property
    def kernel_(self) -> Any:
        """The trained kernel, in the user's units."""
        model = self.fitted_.model
        return kernel_in_user_units(model.covariance, model.x_scale, model.y_scale)

    @property
    def n_experts_(self) -> int:
        """M."""
        return self._experts.n_experts

    @property
    def clients_(self) -> dict[int, int]:
        """Training rows of each client."""
        return self.fitted_.n_rows

    @property
    def experts_of_(self) -> dict[int, np.ndarray]:
        """Experts of each client."""
        return {client: np.flatnonzero(self._experts.owner == client) for client in self.clients_}

    @property
    def n_steps_(self) -> int:
        """Joint steps for θ."""
        return self.fitted_.n_steps

    @property
    def absent_(self) -> set[int]:
        """Clients that did not answer the last queries."""
        return set(self._experts.absent)

    @property
    def privacy_(self) -> PrivacySpent | None:
        """What training has given away, where there is noise."""
        return self.fitted_.privacy

    @property
    def choices_(self) -> dict[str, Choice]:
        """What every "auto" was resolved to."""
        return self.fitted_.choices

    # ----------------------------------------------------------------------------------- predict

    def _queries(self, X: Any) -> np.ndarray:
        experts = self._experts
        X = check_array(X, dtype=np.float64, order="C", ensure_min_samples=0)
        if X.shape[1] != experts.n_features:
            raise ValueError(f"X has {X.shape[1]} features, but the clients' rows have {experts.n_features}.")
        experts.start_answer()
        return X

    def predict(self, X: Any, return_std: bool = False, latent: bool = False) -> Any:
        """Predict at new inputs, which are sent to the clients of the selected experts.

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
        X, model = self._queries(X), self.fitted_.model
        mean, std = self._predictor.predict(X, return_std=return_std, latent=latent)
        return (model.shaped(mean), model.shaped(std)) if return_std else model.shaped(mean)

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Predict intervals that contain a new observation with about the given probability.

        Parameters
        ----------
        X : array-like of shape (n, d)
        level : float

        Returns
        -------
        lower, upper : ndarray of shape (n,) or (n, n_outputs)
        """
        X, model = self._queries(X), self.fitted_.model
        _, lower, upper = self._predictor.interval(X, level)
        return model.shaped(lower), model.shaped(upper)

    def interval_width(self, level: float, std: Any) -> np.ndarray:
        """Return half the widths of intervals, in units of the predicted std, and of its shape."""
        check_is_fitted(self)
        return self._predictor.interval_widths(level)(std)

    def select(self, X: Any) -> np.ndarray:
        """Return the selected experts of each query, best first, (n, K)."""
        return self._predictor.select(self._queries(X))

    def explain(self, X: Any) -> Explanation:
        """Return the selected experts of each query, their predictions and weights."""
        return self._predictor.explain(self._queries(X))


def _communication(given: tuple[Any, Any] | None, aggregation: str) -> tuple[np.ndarray, np.ndarray] | None:
    if aggregation != "grbcm":
        if given is not None:
            raise ValueError(
                f"aggregation={aggregation!r} has no use for a communication set; only 'grbcm' has."
            )
        return None
    if given is None:
        raise ValueError(
            "aggregation='grbcm' needs communication=(X, y): public or synthetic rows, for all clients."
        )
    X, y = check_X_y(*given, dtype=np.float64, multi_output=True, y_numeric=True)
    return X, np.asarray(y, dtype=float).reshape(len(X), -1)
