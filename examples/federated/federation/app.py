"""Client and server of this app are those of the library. To read other rows, write a `client_app` here."""

from gpexperts.federated.app import client, server

__all__ = ["client", "server"]
