"""Former home of `gpexperts.schema`, until `gpexperts.io` imports it from there."""

from gpexperts.schema import Column, TableSchema

__all__ = ["Column", "TableSchema"]
