"""Federations of ten clients: patients of parkinsons, and regions of protein's inputs.

    python benchmarks/federated.py                        # all missing runs
    python benchmarks/federated.py --data parkinsons --method federated
    python benchmarks/federated.py --page                 # write the table of docs/federated.md

federated: the defaults, and central training of the same experts; then three of ten clients vanish
dropped: three of ten clients vanish in the third joint step
noise: the defaults with noise on θ, three times: the fit with the median SMSE, and the range of all
centroids: the defaults with selection="knn", which sends a query to the clients with the nearest centroids
alone: a client's own rows only, mean over the first three clients
network: federated averaging of a small neural network
"""

from __future__ import annotations

import json
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import common
from gpexperts import DistributedGPRegressor
from gpexperts.metrics import coverage, msll, smse
from gpexperts.paper.datasets import owners

DATA = ("parkinsons", "protein")
METHODS = ("federated", "dropped", "noise", "centroids", "alone", "network")
CLIENTS, GONE, ALONE = 10, 3, 3
GONE_IN_ROUND = 9
"""describe; summary, start and two likelihoods with an unmask each; then the third likelihood follows."""
NOISE, DRAWS = {"noise_multiplier": 4.0, "delta": 1e-5}, 3
PLAIN: dict[str, Any] = {"trend": None, "noise": "gaussian"}
"""The comparisons have neither a trend nor Student-t noise, as a federation has neither."""
HIDDEN, ROUNDS, EPOCHS = (64, 64), 30, 3
PAGE = Path(__file__).resolve().parents[1] / "docs" / "federated.md"


def one(data: str, method: str) -> None:
    """Run one method and print its scores."""
    warnings.simplefilter("ignore")
    X, y, X_test, y_test = common.load(data)
    owner = owners(data, X, CLIENTS)
    runs = {
        "federated": federated,
        "dropped": dropped,
        "noise": noise,
        "centroids": partial(federated, selection="knn"),
        "alone": alone,
        "network": network,
    }
    print(json.dumps(runs[method](data, X, y, owner, X_test, y_test)))


def federated(
    data: str, X: Any, y: Any, owner: Any, X_test: Any, y_test: Any, **parameters: Any
) -> dict[str, Any]:
    """Fit a federation, compare it with central training, attack it, and let clients vanish."""
    from gpexperts.federated import FederatedGPRegressor, LocalGrid

    rows, apps = clients(X, y, owner)
    grid = LocalGrid(apps)
    model, seconds, cpu = common.timed(lambda: FederatedGPRegressor(random_state=0, **parameters).fit(grid))
    rounds = model.log_.n_rounds
    messages, n_bytes = len(model.log_.messages), sum(m.n_bytes for m in model.log_.messages)
    (mean, std), answer, answer_cpu = common.timed(lambda: model.predict(X_test, return_std=True))
    width = model.interval_width(0.95, std)
    row = {
        **scores(y, y_test, mean, std),
        "coverage": float(np.mean(np.abs(y_test - mean) <= width * std)),
        "steps": model.n_steps_,
        "rounds": rounds,
        "messages": messages,
        "megabytes": n_bytes / 1e6,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "predict_seconds": answer,
        "predict_cpu_seconds": answer_cpu,
        "predict_megabytes": sum(m.n_bytes for m in model.log_.messages if m.kind == "predict") / 1e6,
        "n_experts": model.n_experts_,
        "kernel": str(model.kernel_),
        "auc": membership(model, X, y, X_test, y_test),
    }
    if model.privacy_ is not None:
        row |= model.privacy_._asdict()
    if parameters:
        return row
    row |= central(model, grid, rows, X_test, y_test)
    left = ~np.isin(owner_of(data, X, owner, X_test), gone())
    for client in gone():
        del grid.apps[client + 1]
    row["smse_left_before"] = smse(y_test[left], mean[left])
    row["smse_left_after"] = smse(y_test[left], model.predict(X_test[left]))
    row["absent"] = len(model.absent_)
    return row


def clients(X: Any, y: Any, owner: Any) -> tuple[list[Any], list[Any]]:
    """Return the rows and the Flower app of each client."""
    from gpexperts.federated import ClientPolicy, ClientRows, client_app

    rows = [ClientRows(X[owner == c], y[owner == c]) for c in range(CLIENTS)]
    return rows, [client_app(own, ClientPolicy(n_jobs=1)) for own in rows]


def gone() -> list[int]:
    """Return the clients that vanish, numbered from 0."""
    return np.random.default_rng(0).choice(CLIENTS, GONE, replace=False).tolist()


def dropped(data: str, X: Any, y: Any, owner: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Fit a federation whose clients vanish in training; score the rows of the others."""
    from gpexperts.federated import FederatedGPRegressor, LocalGrid

    class Leaving(LocalGrid):
        rounds = -1  # a federation looks once for its clients, and then once in every round

        def get_node_ids(self) -> list[int]:
            self.rounds += 1
            return [c for c in self.apps if self.rounds <= GONE_IN_ROUND or c - 1 not in gone()]

    grid = Leaving(clients(X, y, owner)[1])
    model, seconds, cpu = common.timed(lambda: FederatedGPRegressor(random_state=0).fit(grid))
    rounds, n_bytes = model.log_.n_rounds, sum(m.n_bytes for m in model.log_.messages)
    left = ~np.isin(owner_of(data, X, owner, X_test), gone())
    mean, std = model.predict(X_test[left], return_std=True)
    width = model.interval_width(0.95, std)
    return {
        **scores(y, y_test[left], mean, std),
        "coverage": float(np.mean(np.abs(y_test[left] - mean) <= width * std)),
        "steps": model.n_steps_,
        "rounds": rounds,
        "megabytes": n_bytes / 1e6,
        "clients": len(model.clients_),
        "events": [f"{e.kind}: {e.reason}" for e in model.log_.events],
        "seconds": seconds,
        "cpu_seconds": cpu,
    }


def noise(data: str, X: Any, y: Any, owner: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Fit with noise on θ."""
    from gpexperts.federated import Privacy

    parameters = {"privacy": Privacy(**NOISE), "kernel": "matern32", "min_clients": 7}
    fits = [federated(data, X, y, owner, X_test, y_test, **parameters) for _ in range(DRAWS)]
    fits.sort(key=lambda fit: fit["smse"])
    draws = {f"{name}_draws": [fit[name] for fit in fits] for name in ("smse", "coverage", "auc")}
    return {**fits[DRAWS // 2], **draws}


def central(model: Any, grid: Any, rows: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Train the same experts in one place, and predict by the same rule."""
    from gpexperts.federated.holdings import Holdings
    from gpexperts.federated.state import State

    own = {client: Holdings(rows[client - 1], State(grid.contexts[client])) for client in model.clients_}
    labels = [model.experts_of_[client][held.state.array("labels")] for client, held in own.items()]
    X = np.concatenate([held.kept.X for held in own.values()])
    y = np.concatenate([held.kept.y[:, 0] for held in own.values()])
    fit = DistributedGPRegressor(
        partition=np.concatenate(labels),
        aggregation=model.fitted_.settings.aggregator,
        selection="all",
        n_neighbors=0,
        **PLAIN,
        random_state=0,
        n_jobs=1,
    )
    _, seconds, cpu = common.timed(lambda: fit.fit(X, y))
    mean, std = fit.predict(X_test, return_std=True)
    found = {**scores(y, y_test, mean, std), "seconds": seconds, "cpu_seconds": cpu}
    return {f"central_{name}": value for name, value in found.items()}


def membership(model: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> float:
    """AUC of the attack that takes a row for a training row if the model predicts it well."""
    n = min(len(y_test), 1000)
    rng = np.random.default_rng(0)
    inside, outside = rng.choice(len(y), n, replace=False), rng.choice(len(y_test), n, replace=False)
    queries = np.concatenate([X[inside], X_test[outside]])
    targets = np.concatenate([y[inside], y_test[outside]])
    error = np.abs(targets - model.predict(queries))
    return float(roc_auc_score(np.repeat([1, 0], n), -error))


def owner_of(data: str, X: np.ndarray, owner: np.ndarray, X_test: np.ndarray) -> np.ndarray:
    """The client of a test row: that of its patient, or that of the nearest training row."""
    from sklearn.neighbors import KNeighborsClassifier

    if data == "parkinsons":
        X, X_test = X[:, :1], X_test[:, :1]
    scale = X.std(axis=0)
    return KNeighborsClassifier(1).fit(X / scale, owner).predict(X_test / scale)


def alone(data: str, X: Any, y: Any, owner: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Fit the library to the rows of one client."""
    found, seconds, cpu_seconds = [], 0.0, 0.0
    for client in range(ALONE):
        own = owner == client
        model = DistributedGPRegressor(**PLAIN, random_state=0, n_jobs=1)
        _, time, cpu = common.timed(lambda model=model, own=own: model.fit(X[own], y[own]))
        mean, std = model.predict(X_test, return_std=True)
        found.append({**scores(y, y_test, mean, std), "coverage": coverage(y_test, mean, std)})
        seconds, cpu_seconds = seconds + time / ALONE, cpu_seconds + cpu / ALONE
    mean_scores = {name: float(np.mean([f[name] for f in found])) for name in found[0]}
    return {**mean_scores, "seconds": seconds, "cpu_seconds": cpu_seconds}


def network(data: str, X: Any, y: Any, owner: Any, X_test: Any, y_test: Any) -> dict[str, Any]:
    """Average small networks, as federated learning usually does."""
    from sklearn.neural_network import MLPRegressor

    shift, scale, y_shift, y_scale = X.mean(axis=0), X.std(axis=0), y.mean(), y.std()
    Z, t = (X - shift) / scale, (y - y_shift) / y_scale
    weights: list[np.ndarray] | None = None

    def trained() -> list[np.ndarray]:
        total: list[np.ndarray] = []
        for client in range(CLIENTS):
            own = owner == client
            net = MLPRegressor(
                hidden_layer_sizes=HIDDEN, learning_rate_init=2e-3, random_state=0
            ).partial_fit(Z[:2], t[:2])
            for array, value in zip((*net.coefs_, *net.intercepts_), weights or (), strict=False):
                array[...] = value
            for _ in range(EPOCHS):
                net.partial_fit(Z[own], t[own])
            share = [own.mean() * array for array in (*net.coefs_, *net.intercepts_)]
            total = share if not total else [a + b for a, b in zip(total, share, strict=True)]
        return total

    def rounds() -> None:
        nonlocal weights
        for _ in range(ROUNDS):
            weights = trained()

    _, seconds, cpu = common.timed(rounds)
    assert weights is not None
    net = MLPRegressor(hidden_layer_sizes=HIDDEN, random_state=0).partial_fit(Z[:2], t[:2])
    for array, value in zip((*net.coefs_, *net.intercepts_), weights, strict=True):
        array[...] = value
    mean = net.predict((X_test - shift) / scale) * y_scale + y_shift
    std = np.full(len(mean), np.std(y - (net.predict(Z) * y_scale + y_shift)))
    n_bytes = 8 * sum(array.size for array in weights) * 2 * CLIENTS * ROUNDS
    found = {**scores(y, y_test, mean, std), "coverage": coverage(y_test, mean, std)}
    return {**found, "rounds": ROUNDS, "megabytes": n_bytes / 1e6, "seconds": seconds, "cpu_seconds": cpu}


def scores(y: Any, y_test: Any, mean: Any, std: Any) -> dict[str, float]:
    """SMSE and MSLL."""
    return {"smse": float(smse(y_test, mean)), "msll": float(msll(y_test, mean, std, y))}


if __name__ == "__main__":
    if "--page" in sys.argv:
        from federated_page import page

        page(PAGE, CLIENTS)
    else:
        common.run_grid("federated", __doc__, one, {"data": DATA, "method": METHODS})
