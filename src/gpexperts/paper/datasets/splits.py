"""Training and test rows of every data set, with the sizes of the paper.

| data | training rows | which |
| --- | ---: | --- |
| concrete, airfoil, parkinsons | 927, 1203, 5000 | the first rows of a random permutation |
| protein, song_head | 40000, 1000 | as above |
| pol, pumadyn32nm | 10000, 7168 | the usual fixed split, if the file has it; otherwise as above |
| sarcos | 40035 | official test rows, removed from the training rows |
| sarcos-official | 44484 | official test rows, all of which are also training rows |
| protein-log1p | 40000 | protein with the target log(1 + RMSD), as in some collections |
| song | 100000 | the first rows; the test rows are the first 10,000 official test rows |
"""

from __future__ import annotations

import numpy as np

from gpexperts.paper.datasets.base import load, named
from gpexperts.paper.datasets.synthetic import Split

__all__ = ["SPLITS", "VARIANTS", "split"]

SPLITS: dict[str, int] = {
    "concrete": 927,
    "airfoil": 1203,
    "parkinsons": 5000,
    "protein": 40000,
    "song_head": 1000,
    "pol": 10000,
    "pumadyn32nm": 7168,
}
"""Number of training rows."""

VARIANTS = {"sarcos-official": "sarcos", "protein-log1p": "protein"}
"""Name of a variant ↦ its data set."""

_SONG_TRAIN, _SONG_TEST = slice(0, 100_000), slice(463_715, 473_715)


def split(name: str, seed: int = 0) -> Split:
    """Return the training and test rows of a data set.

    Parameters
    ----------
    name : str
        A name, alias or variant: ``"sarcos-official"`` keeps the test rows of sarcos in the training rows,
        as in the paper; ``"protein-log1p"`` is protein with the target log(1 + RMSD).
    seed : int
        Seed of the permutation; fixed splits do not depend on it.
    """
    key = named(VARIANTS.get(name, name)).name
    arrays = load(key)
    X, y = arrays["X"], arrays["y"]
    if name == "protein-log1p":
        y = np.log1p(y)
    if key == "sarcos":
        train = np.arange(len(X))
        if name != "sarcos-official":
            train = np.delete(train, arrays["test_dup_train_index"])
        return Split(X[train], y[train], arrays["X_test"], arrays["y_test"])
    if key == "song":
        return Split(X[_SONG_TRAIN], y[_SONG_TRAIN], X[_SONG_TEST], y[_SONG_TEST])
    if key not in SPLITS:
        raise ValueError(
            f"{name!r} has no predefined split; data sets with one are {', '.join(SPLITS)}, sarcos, song."
        )
    if "std_test_index" in arrays:
        test = arrays["std_test_index"]
        train = np.delete(np.arange(len(X)), test)
    else:
        train, test = np.split(np.random.default_rng(seed).permutation(len(X)), [SPLITS[key]])
    return Split(X[train], y[train], X[test], y[test])
