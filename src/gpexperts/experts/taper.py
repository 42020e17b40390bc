"""The taper of the own expert as a function of the query, with its derivative."""

from __future__ import annotations

import numpy as np

from gpexperts.experts.own import FULL_SHARE

__all__ = ["taper_with_gradient"]


def taper_with_gradient(
    x: np.ndarray, X: np.ndarray, m: int, metric: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """W (m,) of one query x (d,) and ∂W/∂x (m, d).

    Parameters
    ----------
    x : ndarray of shape (d,)
    X : ndarray of shape (m + 1, d)
        Its nearest rows, the last of which is the first one left out; (m, d) if none is.
    m : int
    metric : ndarray of shape (d,)
        Length scales of the distances.
    """
    away = (x - X) / metric
    distance = np.sqrt(np.einsum("md,md->m", away, away))
    slope = np.divide(away, distance[:, None], out=np.zeros_like(away), where=distance[:, None] > 0) / metric
    inner = max(1, round(FULL_SHARE * m)) - 1
    width = distance[m] - distance[inner] if len(X) > m else np.inf
    W, dW = np.ones(m), np.zeros((m, len(x)))
    if not 0.0 < width < np.inf:
        return W, dW
    u = (distance[:m] - distance[inner]) / width
    faded = (u > 0.0) & (u < 1.0)
    W -= np.clip(u, 0.0, 1.0)
    du = (slope[:m] - slope[inner] - u[:, None] * (slope[m] - slope[inner])) / width
    dW[faded] = -du[faded]
    return W, dW
