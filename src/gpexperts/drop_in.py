"""scikit-learn's GaussianProcessRegressor for any number of rows."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor as ExactRegressor
from sklearn.gaussian_process.kernels import Kernel, WhiteKernel
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from gpexperts.exceptions import NoNoiseWarning
from gpexperts.kernels.base import terms_of
from gpexperts.kernels.spectral import has_fourier_features
from gpexperts.regressor import DistributedGPRegressor

__all__ = ["GaussianProcessRegressor"]


class GaussianProcessRegressor(ExactRegressor):
    """scikit-learn's Gaussian process regressor, which scales to millions of rows.

    Parameters, methods and results are those of :class:`sklearn.gaussian_process.GaussianProcessRegressor`.
    Up to `exact_rows` training rows, scikit-learn computes them. With more rows a
    :class:`DistributedGPRegressor` with the same kernel, noise and prior mean is fitted, `regressor_`. What
    needs a matrix of all rows is then not available: `L_`, `alpha_`, and `log_marginal_likelihood` of other
    hyperparameters.

    Parameters
    ----------
    kernel, alpha, optimizer, n_restarts_optimizer, normalize_y, copy_X_train, n_targets, random_state
        As in scikit-learn. With more than `exact_rows` rows, `alpha` must be a number and `optimizer`
        ``"fmin_l_bfgs_b"`` or None.

    Attributes
    ----------
    exact_rows : int
        The most training rows for which the exact GP is fitted; set it on the class or on an instance.
    regressor_ : DistributedGPRegressor
        The fitted model, if there were more rows.
    kernel_ : Kernel
    X_train_, y_train_ : ndarray
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

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to X (n, d) and y, (n,) or (n, n_targets)."""
        vectors = self.kernel is None or self.kernel.requires_vector_input
        if not vectors or _num_samples(X) <= self.exact_rows:
            self.__dict__.pop("regressor_", None)
            return super().fit(X, y)
        self._validate_params()
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, dtype="numeric")
        self._check_supported(y)
        self._y_train_mean, self._y_train_std = np.zeros(y.shape[1:]), np.ones(y.shape[1:])
        if self.normalize_y:
            std = np.std(y, axis=0)
            self._y_train_mean, self._y_train_std = np.mean(y, axis=0), np.where(std == 0.0, 1.0, std)
        targets = (y - self._y_train_mean) / self._y_train_std
        regressor = DistributedGPRegressor(
            kernel=self._noisy_kernel(),
            optimizer=None if self.optimizer is None else "lbfgs",
            n_restarts=self.n_restarts_optimizer,
            standardize=False,
            noise="gaussian",
            trend=None,
            random_state=self.random_state,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoNoiseWarning)  # alpha is a choice of the caller
            self.regressor_ = regressor.fit(X, targets)
        self.X_train_, self.y_train_ = (np.copy(X) if self.copy_X_train else X), targets
        self.kernel_ = self.regressor_.kernel_.k1
        self.log_marginal_likelihood_value_ = self.regressor_.log_marginal_likelihood_value_
        return self

    def _check_supported(self, y: np.ndarray) -> None:
        """Refuse what only the exact GP offers."""
        n = len(y)
        if np.ndim(self.alpha):
            if len(self.alpha) != n:
                raise ValueError(
                    "alpha must be a scalar or an array with same number of entries as y. "
                    f"({len(self.alpha)} != {n})"
                )
            raise ValueError(
                f"alpha has one value for each row, which is not supported for more than {self.exact_rows} "
                "rows. Give a number, or set exact_rows to a larger number."
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

    def _noisy_kernel(self) -> Kernel:
        """The kernel plus `alpha` as fixed noise."""
        kernel = self.kernel
        if kernel is None:  # the default of the installed scikit-learn, which depends on its version
            kernel = ExactRegressor(optimizer=None).fit([[0.0]], [0.0]).kernel_
        return kernel + WhiteKernel(self.alpha, "fixed")

    @property
    def _is_large(self) -> bool:
        return "regressor_" in self.__dict__

    @property
    def _white(self) -> float:
        """Noise variance that predictions include: that of the kernel, without `alpha`."""
        return float(sum(t.noise_level for t in terms_of(self.kernel_) if isinstance(t, WhiteKernel)))

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Predict mean, and standard deviation or covariance, as scikit-learn does.

        Noise is included if the kernel has a WhiteKernel; `alpha` is not.
        """
        if not self._is_large:
            return super().predict(X, return_std=return_std, return_cov=return_cov)
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        X = validate_data(self, X, reset=False, dtype="numeric")
        white, scale = self._white, self._y_train_std
        latent = white == 0.0
        if not (return_std or return_cov):
            return self.regressor_.predict(X) * scale + self._y_train_mean
        if return_std:
            mean, std = self.regressor_.predict(X, return_std=True, latent=latent)
            var = std**2 if latent else np.maximum(std**2 - self.alpha, 0.0)
            return mean * scale + self._y_train_mean, np.sqrt(var) * scale
        mean, cov = self.regressor_.predict(X, latent=latent, return_cov=True)
        if not latent:
            diagonal = np.einsum("ii...->i...", cov)
            np.subtract(diagonal, self.alpha, out=diagonal)
        return mean * scale + self._y_train_mean, cov * scale**2

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draw samples at X, (n, n_samples) or (n, n_targets, n_samples), as scikit-learn does."""
        if not self._is_large or not has_fourier_features(self.regressor_.model_.covariance):
            return super().sample_y(X, n_samples, random_state)
        X = validate_data(self, X, reset=False, dtype="numeric")
        latent = self._white == 0.0
        samples = self.regressor_.sample_y(X, n_samples, random_state, latent=latent)
        return samples * np.asarray(self._y_train_std)[..., None] + np.asarray(self._y_train_mean)[..., None]

    def log_marginal_likelihood(
        self, theta: Any = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any:
        """Return the log marginal likelihood, with more than `exact_rows` rows that of `kernel_` only."""
        check_is_fitted(self, "X_train_")
        if not self._is_large:
            return super().log_marginal_likelihood(theta, eval_gradient, clone_kernel)
        if theta is None and eval_gradient:
            raise ValueError("Gradient can only be evaluated for theta!=None")
        if theta is not None:
            raise ValueError(
                f"log_marginal_likelihood(theta) needs a matrix of all {len(self.X_train_)} rows. It is "
                f"available up to exact_rows={self.exact_rows}."
            )
        return self.log_marginal_likelihood_value_
