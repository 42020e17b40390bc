"""Engines: where work runs. The default is threads of this machine; `dask` is a cluster."""

from gpexperts.engines.base import Engine, Held
from gpexperts.engines.dask_types import is_client, is_collection
from gpexperts.engines.threads import ThreadEngine, blas_threads, blas_threads_for, usable_workers

__all__ = [
    "Engine",
    "Held",
    "ThreadEngine",
    "blas_threads",
    "blas_threads_for",
    "is_client",
    "is_collection",
    "usable_workers",
]
