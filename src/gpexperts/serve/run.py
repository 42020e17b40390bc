"""Start the service."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from gpexperts.serve.app import create_app
from gpexperts.serve.bodies import Limits

__all__ = ["LOOPBACK_NAMES", "is_loopback", "run"]

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
"""Names under which a service on the loopback interface is addressed."""


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def run(
    model: Any, *, host: str, port: int, target: str | None, limits: Limits, ready: Callable[[str], None]
) -> None:
    """Serve a model until the process is interrupted.

    Parameters
    ----------
    model : DistributedGPRegressor
        Fitted to one target.
    host : str
        Address to listen on. On the loopback interface, requests under other names are refused.
    port : int
        0 for a free one.
    target : str or None
        Name of the target.
    limits : Limits
    ready : callable
        Is called with the URL once the port is open.
    """
    hosts = (*LOOPBACK_NAMES, host) if is_loopback(host) else ()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise OSError(
            f"Cannot listen on {host}, port {port}: {error}. Choose another with --port."
        ) from error
    with listener:
        app = create_app(model, target=target, limits=limits, hosts=tuple(dict.fromkeys(hosts)))
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listener.getsockname()[1]}")
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=5, ws="none"
        )
        uvicorn.Server(config).run(sockets=[listener])
