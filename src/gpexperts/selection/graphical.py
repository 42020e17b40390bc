"""ggm: the experts with the largest partial correlations to others, the same for all queries."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpexperts.engines.threads import blas_threads
from gpexperts.exceptions import RepairWarning
from gpexperts.selection.base import ExpertsView, Selector

__all__ = ["GGMSelector"]


class GGMSelector(Selector):
    """Rank experts by their importance in a Gaussian graphical model of their predictions.

    The precision matrix Ω of the experts' predictions is estimated by the graphical lasso,

        max_Ω  log |Ω| − tr(S Ω) − λ ‖Ω‖₁,

    on their correlations S, and the importance of expert i is I_i = Σ_{j≠i} |Ω_ij| (Jalali & Kasneci).

    Parameters
    ----------
    penalty : float
        λ; the penalty includes Ω's diagonal, as the paper writes it.
    inputs : ndarray of shape (k, d) or None
        Where the predictions are compared, in the units of the training inputs. None means a sample of the
        training inputs. The paper uses the test inputs, but then a prediction depends on the other queries
        of its batch.
    sample_size : int
        Rows of that sample.
    max_iter : int
        Iterations of the graphical lasso.

    Attributes
    ----------
    precision_ : ndarray of shape (M, M)
    importance_ : ndarray of shape (M,)
    """

    varies_by_query = False

    def __init__(
        self,
        penalty: float = 0.1,
        inputs: np.ndarray | None = None,
        sample_size: int = 1000,
        max_iter: int = 200,
    ) -> None:
        self.penalty = penalty
        self.inputs = inputs
        self.sample_size = sample_size
        self.max_iter = max_iter

    def fit(self, experts: ExpertsView) -> GGMSelector:
        if not self.penalty > 0:
            raise ValueError(f"penalty must be positive, got {self.penalty}.")
        if self.inputs is None:
            size = min(self.sample_size, len(experts.X))
            rows = np.sort(experts.random_state.choice(len(experts.X), size, replace=False))
            inputs = experts.X[rows]
        else:
            inputs = experts.transform(self.inputs)
        self.precision_ = _sparse_precision(
            _correlation(experts.means_at(inputs)), self.penalty, self.max_iter
        )
        magnitude = np.abs(self.precision_)
        self.importance_ = magnitude.sum(axis=1) - np.diagonal(magnitude)
        return self

    def select(self, X: np.ndarray, n_selected: int) -> np.ndarray:
        # Ties are common (with M = 2 always), so importances are rounded and the expert's number decides.
        share = self.importance_ / max(self.importance_.max(), np.finfo(float).tiny)
        ranking = np.argsort(-np.round(share, 9), kind="stable")[:n_selected]
        return np.tile(ranking, (len(X), 1))

    def default_n_selected(self, n_experts: int) -> int:
        """Half of the experts: one set must cover all queries."""
        return -(-n_experts // 2)


def _correlation(means: np.ndarray) -> np.ndarray:
    """Correlations of the columns of `means` (k, M); a constant column has correlation 0 with all others."""
    deviation = means - means.mean(axis=0)
    scale = np.sqrt(np.einsum("km,km->m", deviation, deviation))
    deviation /= np.where(scale > 0, scale, 1.0)
    S = deviation.T @ deviation
    np.fill_diagonal(S, 1.0)
    return S


def _sparse_precision(S: np.ndarray, penalty: float, max_iter: int) -> np.ndarray:
    from sklearn.covariance import graphical_lasso  # late: this import is slow

    if len(S) == 1:
        return np.array([[1.0 / (1.0 + penalty)]])
    # scikit-learn does not penalise the diagonal. With S + λI its objective is the paper's, and a nearly
    # singular S (experts that agree) becomes well conditioned.
    penalised = S + penalty * np.eye(len(S))
    with blas_threads(1), warnings.catch_warnings():
        # Ω is only used to rank, so it need not converge fully. The inner problems need a small tolerance:
        # with a large one the outer iteration diverges or Ω is not positive definite.
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        for shrinkage in (0.0, 0.01, 0.1, 0.5):
            shrunk = (1.0 - shrinkage) * penalised + shrinkage * np.eye(len(S))
            try:
                _, precision = graphical_lasso(
                    shrunk, alpha=penalty, max_iter=max_iter, mode="cd", enet_tol=1e-8
                )
            except FloatingPointError as error:
                failure = error
                continue
            break
        else:
            raise failure
    if shrinkage:
        warnings.warn(
            f"The {len(S)} experts' predictions are so nearly collinear that the graphical lasso failed; "
            f"their correlations were shrunk by {shrinkage:.0%}. A larger penalty of GGMSelector avoids it.",
            RepairWarning,
            stacklevel=2,
        )
    return np.asarray(precision)
