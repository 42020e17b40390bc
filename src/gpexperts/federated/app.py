"""A ready-made Flower app: `client` and `server` for ``flwr run``; see docs/federated.md.

A SuperNode names its rows in its node config, a run its settings in the run config.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from gpexperts.exceptions import TableError
from gpexperts.federated.client import client_app
from gpexperts.federated.log import logger
from gpexperts.federated.messages import Refusal
from gpexperts.federated.policy import ClientPolicy, ClientRows
from gpexperts.federated.regressor import FederatedGPRegressor
from gpexperts.federated.settings import FEDERATED_PARAMETERS

__all__ = ["client", "node_policy", "node_rows", "server"]


def node_rows(context: Context) -> ClientRows:
    """Read the rows that the node config names: ``rows="file"``, and ``target="column"`` for a table.

    A ``.npz`` file holds X and y, and perhaps the texts `columns` and `units`. Any other file is a table of
    numbers in a format that ``gpexperts fit`` can read.
    """
    config = context.node_config
    if "rows" not in config:
        raise Refusal("The node config names no rows: start the SuperNode with --node-config 'rows=\"…\"'.")
    path = Path(str(config["rows"]))
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            columns, units = (
                tuple(map(str, file[name])) if name in file else () for name in ("columns", "units")
            )
            return ClientRows(file["X"], file["y"], columns, units)
    if "target" not in config:
        raise Refusal('The rows are a table, and the node config names no target: add target="column".')
    return _table_rows(str(path), str(config["target"]))


def _table_rows(path: str, target: str) -> ClientRows:
    """Read all columns as numbers.

    No column is left out, as ``gpexperts fit`` leaves out constants and identifiers: another client may have
    other values in it, and all must have the same columns.
    """
    from gpexperts.tables.columns_seen import see_column
    from gpexperts.tables.names import require_columns
    from gpexperts.tables.reading import open_table

    reader = open_table(path)
    require_columns(reader.names, [target], path)
    table = reader.read(reader.names)
    columns = {}
    for name in reader.names:
        seen = see_column(reader, table.column(name), name, "number")
        if seen.values is None:
            raise TableError(f"Column {name} of {path} holds {seen.shown}; a federation needs numbers.")
        columns[name] = np.asarray(seen.values, dtype=float)
    y = columns.pop(target)
    return ClientRows(np.column_stack(list(columns.values())), y, tuple(columns))


def node_policy(context: Context) -> ClientPolicy:
    """Read the policy from the node config: its fields, with - for _."""
    fields = {field.name: field.name.replace("_", "-") for field in dataclasses.fields(ClientPolicy)}
    given: dict[str, Any] = {
        name: context.node_config[key] for name, key in fields.items() if key in context.node_config
    }
    return ClientPolicy(**given)


client = client_app(node_rows, node_policy)
server = ServerApp()


@server.main()  # type: ignore[untyped-decorator, unused-ignore]
def main(grid: Grid, context: Context) -> None:
    """Fit with the clients that connect in time, and predict for a file of queries.

    The run config has ``clients`` (their number) and ``wait`` (seconds at most), ``queries`` and
    ``predictions`` (``.npz`` files with X; and with mean, std, lower and upper at 95 %, clients of the fit
    and absent ones), and parameters of `FederatedGPRegressor`, with - for _.
    """
    config = context.run_config
    _wait_for(grid, int(config.get("clients", 3)), float(config.get("wait", 60.0)))
    given = {name: config[key] for name in FEDERATED_PARAMETERS if (key := name.replace("_", "-")) in config}
    model = FederatedGPRegressor(**given).fit(grid)
    logger.warning("fitted with %s clients, kernel %s", len(model.clients_), model.kernel_)
    if config.get("queries"):
        with np.load(str(config["queries"]), allow_pickle=False) as file:
            X = file["X"]
        mean, std = model.predict(X, return_std=True)
        half = model.interval_width(0.95, std) * std
        absent = np.array(sorted(model.absent_), dtype=np.uint64)
        np.savez(
            str(config["predictions"]),
            mean=mean,
            std=std,
            lower=mean - half,
            upper=mean + half,
            absent=absent,
            clients=np.array(list(model.clients_), dtype=np.uint64),
        )
    logger.warning("messages\n%s", model.log_)


def _wait_for(grid: Grid, n_clients: int, seconds: float) -> None:
    """Wait until so many clients are connected, but not for ever: `fit` says if there are too few."""
    until = time.monotonic() + seconds
    while len(list(grid.get_node_ids())) < n_clients and time.monotonic() < until:
        time.sleep(0.5)
