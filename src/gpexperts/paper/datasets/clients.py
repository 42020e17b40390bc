"""Which client of a federation owns which row: patients by clinic, or regions of input space."""

from __future__ import annotations

import numpy as np

from gpexperts.partition import PARTITIONERS
from gpexperts.scaling import ColumnSummary, Standardizer

__all__ = ["owners"]

_SUBJECT = {"parkinsons": 0}
"""Column that tells whose row it is."""


def owners(name: str, X: np.ndarray, n_clients: int = 10, seed: int = 0) -> np.ndarray:
    """Return the client of each row, numbered from 0.

    Patients of parkinsons are assigned to clients at random, with all of their rows. For other data sets,
    every client owns a region, a part of "balanced" in standardised inputs: no two see similar inputs.

    Parameters
    ----------
    name : str
        Of the data set.
    X : ndarray of shape (n, d)
    n_clients : int
    seed : int

    Returns
    -------
    owner : ndarray of int, shape (n,)
    """
    if name in _SUBJECT:
        subjects, of_row = np.unique(X[:, _SUBJECT[name]], return_inverse=True)
        client = np.random.default_rng(seed).permutation(len(subjects)) % n_clients
        return client[of_row]
    Z = Standardizer.of(ColumnSummary.of(X)).transform(X)
    return PARTITIONERS["balanced"]().partition(Z, n_clients, np.random.RandomState(seed))
