"""Engines: where the work runs. The default is threads of this machine."""

from gpexperts.engines.base import Engine
from gpexperts.engines.threads import ThreadEngine, blas_threads, usable_workers

__all__ = ["Engine", "ThreadEngine", "blas_threads", "usable_workers"]
