"""Write the rows of each client, and test queries, as files; or run the federation in this process.

    python examples/federated/clients.py parkinsons out     # out/client-0.npz …, out/queries.npz
    python examples/federated/clients.py protein out
    python examples/federated/clients.py parkinsons         # in memory, with the error and the coverage

parkinsons: every client has all rows of several patients. protein: every client has a region of input space.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from gpexperts.metrics import smse
from gpexperts.paper.datasets import owners, split


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", choices=("parkinsons", "protein"))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--clients", type=int, default=10)
    args = parser.parse_args()
    X, y, X_test, y_test = split(args.data)
    owner = owners(args.data, X, args.clients)
    if args.folder is None:
        in_memory(X, y, owner, X_test, y_test)
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    for client in range(args.clients):
        np.savez(args.folder / f"client-{client}.npz", X=X[owner == client], y=y[owner == client])
    np.savez(args.folder / "queries.npz", X=X_test)


def in_memory(
    X: np.ndarray, y: np.ndarray, owner: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> None:
    """Fit and predict with clients of this process."""
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
    from gpexperts.federated import ClientRows, FederatedGPRegressor, LocalGrid, client_app

    clients = [client_app(ClientRows(X[owner == c], y[owner == c])) for c in np.unique(owner)]
    model = FederatedGPRegressor(random_state=0).fit(LocalGrid(clients))
    lower, upper = model.predict_interval(X_test)
    error, inside = smse(y_test, model.predict(X_test)), np.mean((lower <= y_test) & (y_test <= upper))
    print(
        f"SMSE {error:.4g}, {inside:.1%} of the test rows in the 95 % interval, {model.n_steps_} joint steps"
    )
    print(model.log_)


if __name__ == "__main__":
    main()
