"""Recognise objects of Dask without importing Dask."""

from __future__ import annotations

from typing import Any

__all__ = ["is_client", "is_collection"]


def is_collection(X: Any) -> bool:
    """Whether X is a dask array or frame, or of a class derived from one."""
    # Before 2025, frames are defined in the package dask_expr.
    return any(cls.__module__.partition(".")[0] in ("dask", "dask_expr") for cls in type(X).__mro__)


def is_client(value: Any) -> bool:
    """Whether a value is a Dask client."""
    return type(value).__module__.partition(".")[0] == "distributed" and hasattr(value, "scheduler")
