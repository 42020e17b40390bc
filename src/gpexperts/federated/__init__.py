"""Federated GP experts, on Flower: rows stay with their owners, and only what the aggregation needs travels.

    server   FederatedGPRegressor ─► Federation (rounds, log) ─► Grid
    client   client_app: rows, training, experts ◄─ messages

`messages` is the protocol, `answering` replies to it, `fitting` asks. The mathematics is the library's own.
"""

from gpexperts.exceptions import MissingExtraError

try:
    import flwr  # noqa: F401
except ImportError as error:
    raise MissingExtraError("gpexperts.federated", "federated") from error

from gpexperts.federated.client import client_app
from gpexperts.federated.grid import LocalGrid
from gpexperts.federated.log import MessageLog
from gpexperts.federated.policy import ClientPolicy, ClientRows
from gpexperts.federated.privacy import Privacy
from gpexperts.federated.regressor import FederatedGPRegressor

__all__ = [
    "ClientPolicy",
    "ClientRows",
    "FederatedGPRegressor",
    "LocalGrid",
    "MessageLog",
    "Privacy",
    "client_app",
]
