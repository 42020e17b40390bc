"""Find a Dask client: the current one, one that was opened before, or a new one."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from gpexperts.engines.threads import usable_workers
from gpexperts.exceptions import ClusterError, MissingExtraError

__all__ = ["address_of", "client_at", "distributed"]

_clients: dict[str, Any] = {}
"""Clients that were given or opened, by address: one connection per address."""


def distributed() -> Any:
    """The package `distributed`, or an error that explains how to install it."""
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError("engine='dask'", "dask") from error
    return distributed


def address_of(client: Any) -> str:
    """The address of a client's scheduler, by which `client_at` finds the client again."""
    address = str(client.scheduler.address)
    _clients[address] = client
    return address


def client_at(address: str | None, patience: float) -> Any:
    """The client of a scheduler.

    Parameters
    ----------
    address : str or None
        The scheduler's address, or the path of a scheduler file; None is the current client, or a new
        cluster of this machine's cores if there is none.
    patience : float
        Seconds to wait for the scheduler to reply.
    """
    with suppress(ValueError):
        current = distributed().Client.current()
        if address is None or address == str(current.scheduler.address):
            return current
    if address is None:
        return _local_cluster()
    client = _clients.get(address)
    lost = client is not None and client.status != "running"
    if client is None or lost:
        try:
            client = distributed().Client(
                **{"scheduler_file" if address.endswith(".json") else "address": address},
                set_as_default=False,
                timeout=patience,
            )
        except OSError as error:
            raise ClusterError(
                f"No Dask scheduler replied at {address} within {patience:g} s. "
                "Start one with `dask scheduler`, or correct the address."
                + lost
                * " A model that was fitted on its cluster must then be fitted again."
            ) from error
        _clients[address] = client
    return client


def _local_cluster() -> Any:
    cluster = distributed().LocalCluster(
        n_workers=usable_workers(None), threads_per_worker=1, dashboard_address=":0"
    )
    client = distributed().Client(cluster)
    print(
        f"[gpexperts] engine='dask' found no current Dask client: started a LocalCluster of "
        f"{len(cluster.workers)} workers at {cluster.scheduler_address}.",
        file=sys.stderr,
    )
    return client
