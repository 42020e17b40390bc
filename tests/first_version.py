"""What the first version answers at fixed hyperparameters, for a redesign to be held against.

Nothing is learned here, so that any difference of more than rounding is a difference of method. Cases use
the public interface alone; what a later version spells differently is in `SPELLINGS`.

    PYTHONPATH=/the/first/version/src OMP_NUM_THREADS=1 python -m tests.first_version

asks every case on threads and on a Dask cluster, stops where the two disagree, and writes `NUMBERS`.
"""

from __future__ import annotations

from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import distributed
import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Kernel, Matern, WhiteKernel

NUMBERS = Path(__file__).parent / "data" / "first_version.npz"
TOLERANCE = 1e-10
"""Of means and standard deviations, in units of the targets' standard deviation; of weights, as it is."""

SPELLINGS: list[dict[str, dict[str, Any]]] = [
    {"plain NPAE": {"widen": None}, "selections": {}, "parameters": {}, "given": {}},  # the first version
    {
        "plain NPAE": {"disagreement": None},
        "selections": {"rows": "nearest_rows"},
        "parameters": {},
        "given": {"n_neighbors": 0},
    },
]
"""By version: keywords of NPAE without corrections, and its names for selections and for parameters of the
estimator, where they differ from the first version's; parameters that turn off what it did not have. The
first that NPAE understands is taken."""

KERNELS: dict[str, Kernel] = {
    "rbf": ConstantKernel(1.5) * RBF([0.6, 0.9, 1.4]) + WhiteKernel(0.05),
    "matern": ConstantKernel(0.8) * Matern([0.9, 0.7, 2.0], nu=1.5) + WhiteKernel(0.02),
    "sum": RBF([0.5, 1.0, 0.8]) + DotProduct(0.7) + WhiteKernel(0.1),
}
AGGREGATIONS = ("poe", "gpoe", "bcm", "rbcm", "grbcm", "npae")
SELECTIONS = ("all", "knn", "rows", "dnn", "ggm")


class Case(NamedTuple):
    """A kernel, who owns which row, how answers are combined, who is asked, all by name; and outputs."""

    kernel: str
    partition: str
    aggregation: str
    selection: str
    n_outputs: int

    @property
    def name(self) -> str:
        return "-".join(map(str, self))


CASES = [
    Case(kernel, "octants", *names, n_outputs)
    for kernel, n_outputs in (("rbf", 1), ("matern", 2), ("sum", 1))
    for names in product(AGGREGATIONS, SELECTIONS)
]
CASES += [
    Case("rbf", *names, "knn", 1) for names in product(("kmeans", "balanced", "random"), ("npae", "grbcm"))
]


def data(n_outputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X (600, 3), y (600,) or (600, 2), and queries (150, 3): 120 near, 27 outside, 3 very far."""
    rng = np.random.default_rng(20)
    X = rng.uniform(-1.0, 1.0, size=(600, 3))
    outputs = (np.sin(3 * X[:, 0]) + X[:, 1] ** 2 - X[:, 2] / 2, np.cos(2 * X[:, 1] + X[:, 2]) * X[:, 0])
    y = np.stack(outputs, axis=1) + 0.2 * rng.standard_normal((600, 2))
    near, direction = rng.uniform(-1.05, 1.05, size=(120, 3)), rng.standard_normal((30, 3))
    away = np.concatenate([np.linspace(1.5, 5.0, 27), [40.0, 50.0, 60.0]])
    far = direction * (away / np.linalg.norm(direction, axis=1))[:, None]
    return X, y[:, 0] if n_outputs == 1 else y, np.concatenate([near, far])


def octants(X: np.ndarray, *, shared: bool) -> np.ndarray:
    """Labels of eight compact parts, not equally large; if `shared`, −1 for every ninth row."""
    labels = (X > [0.1, -0.05, 0.0]) @ [1, 2, 4]
    return np.where(shared & (np.arange(len(X)) % 9 == 4), -1, labels)


def estimator(case: Case, **more: Any) -> Any:
    """Return the estimator of a case, not fitted; `more` are further parameters, as the first version's."""
    from gpexperts import DistributedGPRegressor
    from gpexperts.aggregation import NPAE

    spelling = next(s for s in SPELLINGS if s["plain NPAE"].keys() <= signature(NPAE).parameters.keys())
    parameters = {"kernel": KERNELS[case.kernel], "optimizer": None, "standardize": False, "random_state": 0}
    parameters["aggregation"] = case.aggregation
    if case.aggregation == "npae":
        parameters["aggregation"] = NPAE(**spelling["plain NPAE"])
    parameters["selection"] = spelling["selections"].get(case.selection, case.selection)
    if case.selection != "all":
        parameters["n_selected"] = 3
    if case.partition == "octants":
        parameters["partition"] = octants(data(1)[0], shared=case.aggregation == "grbcm")
    else:
        parameters |= {"partition": case.partition, "n_experts": 8}
    parameters |= spelling["given"] | more
    return DistributedGPRegressor(**{spelling["parameters"].get(k, k): v for k, v in parameters.items()})


def answers(case: Case, **more: Any) -> dict[str, np.ndarray]:
    """Fit the estimator of a case, and return what it says of the queries."""
    X, y, X_new = data(case.n_outputs)
    model = estimator(case, **more).fit(X, y)
    mean, std = model.predict(X_new, return_std=True)
    _, latent_std = model.predict(X_new, return_std=True, latent=True)
    said = {"mean": mean, "std": std, "latent_std": latent_std, "weight": model.explain(X_new).weight}
    said["index"] = model.select(X_new).astype(np.int8)
    return said if case.partition == "octants" else said | {"labels": model.labels_.astype(np.int8)}


def stored(case: Case) -> dict[str, np.ndarray]:
    """What the first version answered."""
    with np.load(NUMBERS) as arrays:
        names = [name for name in arrays.files if name.startswith(f"{case.name}/")]
        return {name.partition("/")[2]: arrays[name] for name in names}


def disagreement(case: Case, ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> dict[str, float]:
    """By answer, the largest difference in the units of `TOLERANCE`: 1 or more if another expert is asked."""
    scale = dict.fromkeys(("mean", "std", "latent_std"), data(case.n_outputs)[1].std(axis=0))
    for name, value in theirs.items():
        assert ours[name].shape == value.shape, (case.name, name)
    return {k: float((np.abs(ours[k] - theirs[k]) / scale.get(k, 1.0)).max()) for k in theirs}


def local_cluster() -> distributed.LocalCluster:
    """Two workers that are threads of this process; it is a context manager."""
    return distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    )


if __name__ == "__main__":
    arrays: dict[str, np.ndarray] = {}
    largest: dict[str, float] = {}
    with local_cluster() as cluster, distributed.Client(cluster) as client:
        for case in CASES:
            said = answers(case)
            found = disagreement(case, answers(case, engine=client), said)
            assert all(value <= TOLERANCE for value in found.values()), (case.name, found)
            largest |= {name: max(value, largest.get(name, 0.0)) for name, value in found.items()}
            arrays |= {f"{case.name}/{name}": value for name, value in said.items()}
    np.savez_compressed(NUMBERS, **arrays)
    print(f"{len(CASES)} cases, {NUMBERS.stat().st_size} bytes; threads and Dask differ by {largest}")
