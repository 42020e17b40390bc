"""scikit-learn's GaussianProcessRegressor for any number of rows.

All predictions are those of a :class:`DistributedGPRegressor`. For few rows scikit-learn's code trains the
hyperparameters, and one expert predicts, which is the exact GP. For more rows there are many experts, which
also train the hyperparameters.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor as ExactRegressor
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted, validate_data

from gpexperts.exceptions import NoNoiseWarning
from gpexperts.kernels.spectral import has_fourier_features
from gpexperts.regressor import DistributedGPRegressor

__all__ = ["GaussianProcessRegressor"]

_EXACT = {"n_experts": 1, "n_selected": 1, "n_neighbors": 0, "optimizer": None}
"""Parameters of the exact GP at given hyperparameters."""


class GaussianProcessRegressor(ExactRegressor):
    """scikit-learn's Gaussian process regressor, which scales to millions of rows.

    Parameters, methods and results are those of :class:`sklearn.gaussian_process.GaussianProcessRegressor`.
    Up to `exact_rows` training rows, hyperparameters maximise the likelihood of all rows, and predictions are
    those of the exact GP. With more rows, hyperparameters are trained on blocks of neighbouring rows, and
    predictions are those of local experts. What needs a matrix of all rows is then not available: `L_`,
    `alpha_`, and `log_marginal_likelihood` of other hyperparameters.

    Parameters
    ----------
    kernel, alpha, optimizer, n_restarts_optimizer, normalize_y, copy_X_train, n_targets, random_state
        As in scikit-learn. With more than `exact_rows` rows, `optimizer` must be ``"fmin_l_bfgs_b"`` or None.

    Attributes
    ----------
    exact_rows : int
        The most training rows for which the exact GP is fitted; set it on the class or on an instance.
    regressor_ : DistributedGPRegressor
        The model that predicts; not available for kernels of structured inputs, which scikit-learn predicts.
    kernel_ : Kernel
    X_train_, y_train_ : ndarray
    L_, alpha_ : ndarray
        Up to `exact_rows` rows.
    log_marginal_likelihood_value_ : float
        With more rows, that of the rows that training used last.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> from gpexperts import GaussianProcessRegressor
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> gp = GaussianProcessRegressor(RBF(0.2) + WhiteKernel(1e-2)).fit(X, np.sin(6 * X[:, 0]))
    >>> mean, std = gp.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(3)) < 0.05)
    True
    """

    exact_rows: ClassVar[int] = 2000
    kernel_: Kernel

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to X (n, d) and y, (n,) or (n, n_targets)."""
        for name in ("regressor_", "L_", "alpha_"):
            self.__dict__.pop(name, None)
        vectors = self.kernel is None or self.kernel.requires_vector_input
        if vectors and _n_rows(X) > self.exact_rows:
            return self._fit_experts(X, y)
        super().fit(X, y)
        if vectors:
            self.regressor_ = self._fitted_regressor(kernel=self.kernel_, **_EXACT)
        return self

    def _fit_experts(self, X: Any, y: Any) -> Self:
        """Train hyperparameters and experts on more than `exact_rows` rows."""
        self._validate_params()
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype="numeric")
        self._check_supported(y)
        self._y_train_mean, self._y_train_std = np.zeros(y.shape[1:]), np.ones(y.shape[1:])
        if self.normalize_y:
            std = np.std(y, axis=0)
            self._y_train_mean, self._y_train_std = np.mean(y, axis=0), np.where(std == 0.0, 1.0, std)
        self.X_train_ = np.copy(X) if self.copy_X_train else X
        self.y_train_ = (y - self._y_train_mean) / self._y_train_std
        self.regressor_ = self._fitted_regressor(
            kernel=_default_kernel() if self.kernel is None else clone(self.kernel),
            optimizer=None if self.optimizer is None else "lbfgs",
            n_restarts=self.n_restarts_optimizer,
        )
        self.kernel_ = self.regressor_.kernel_
        self.log_marginal_likelihood_value_ = self.regressor_.log_marginal_likelihood_value_
        return self

    def _check_supported(self, y: np.ndarray) -> None:
        """Refuse what only the exact GP offers, and what scikit-learn refuses."""
        n = len(y)
        if np.ndim(self.alpha) and len(self.alpha) not in (1, n):
            raise ValueError(
                "alpha must be a scalar or an array with same number of entries as y. "
                f"({len(self.alpha)} != {n})"
            )
        if callable(self.optimizer):
            raise ValueError(
                f"optimizer is a function, which is not supported for more than {self.exact_rows} rows. Use "
                "'fmin_l_bfgs_b' or None, or set exact_rows to a larger number."
            )
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        if self.n_targets is not None and n_targets != self.n_targets:
            raise ValueError(
                "The number of targets seen in `y` is different from the parameter `n_targets`. "
                f"Got {n_targets} != {self.n_targets}."
            )

    def _fitted_regressor(self, **parameters: Any) -> DistributedGPRegressor:
        """Fit the normalised training rows, with `alpha` as the known noise of each row."""
        y = self.y_train_
        alpha = np.broadcast_to(np.asarray(self.alpha, dtype=float), len(y))
        regressor = DistributedGPRegressor(
            standardize=False, noise="gaussian", trend=None, random_state=self.random_state, **parameters
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoNoiseWarning)  # alpha is a choice of the caller
            return regressor.fit(
                self.X_train_,
                y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y,
                noise_std=np.sqrt(np.maximum(alpha, np.finfo(float).tiny)) if alpha.any() else None,
            )

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Predict mean, and standard deviation or covariance, as scikit-learn does.

        Noise is included if the kernel has a WhiteKernel; `alpha` is not.
        """
        regressor = self.__dict__.get("regressor_")
        if regressor is None:  # not fitted, or a kernel of structured inputs
            return super().predict(X, return_std=return_std, return_cov=return_cov)
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        X = validate_data(self, X, reset=False, dtype="numeric")
        shift, scale = self._units
        if not (return_std or return_cov):
            return regressor.predict(X) * scale + shift
        if return_std:
            mean, std = regressor.predict(X, return_std=True, latent=self._is_noise_free)
            return mean * scale + shift, std * scale
        mean, cov = regressor.predict(X, return_cov=True, latent=self._is_noise_free)
        return mean * scale + shift, cov * scale**2

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draw samples at X, (n, n_samples) or (n, n_targets, n_samples), as scikit-learn does.

        With more than `exact_rows` rows they are functions by Fourier features, if the kernel has these.
        """
        exact = "regressor_" not in self.__dict__ or "L_" in self.__dict__
        if exact or not has_fourier_features(self.regressor_.model_.covariance):
            return super().sample_y(X, n_samples, random_state)
        X = validate_data(self, X, reset=False, dtype="numeric")
        samples = self.regressor_.sample_y(X, n_samples, random_state, latent=self._is_noise_free)
        shift, scale = self._units
        return samples * np.asarray(scale)[..., None] + np.asarray(shift)[..., None]

    @property
    def _units(self) -> tuple[Any, Any]:
        """Shift and scale of the targets: numbers, or (n_targets,)."""
        shift, scale = np.asarray(self._y_train_mean), np.asarray(self._y_train_std)
        return (shift.item(), scale.item()) if scale.size == 1 else (shift, scale)

    @property
    def _is_noise_free(self) -> bool:
        """Whether predictions are those of the function: `alpha` is not part of an observation."""
        return bool(self.regressor_.model_.covariance.noise_variance == 0.0)

    def log_marginal_likelihood(
        self, theta: Any = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any:
        """Return the log marginal likelihood, with more than `exact_rows` rows that of `kernel_` only."""
        check_is_fitted(self, "X_train_")
        if theta is not None and "regressor_" in self.__dict__ and "L_" not in self.__dict__:
            raise ValueError(
                f"log_marginal_likelihood(theta) needs a matrix of all {len(self.X_train_)} rows. It is "
                f"available up to exact_rows={self.exact_rows}."
            )
        return super().log_marginal_likelihood(theta, eval_gradient, clone_kernel)


def _n_rows(X: Any) -> int:
    """Number of rows of a table; 0 if X is none, which scikit-learn refuses."""
    shape = getattr(X, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    return len(X) if hasattr(X, "__len__") else 0


def _default_kernel() -> Kernel:
    """The default of the installed scikit-learn, which depends on its version."""
    return ExactRegressor(optimizer=None).fit([[0.0]], [0.0]).kernel_
