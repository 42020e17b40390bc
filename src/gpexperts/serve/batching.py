"""Requests that arrive while others are predicted are then predicted together.

There is no waiting for a batch to fill: a lone request starts at once, and under load batches grow by
themselves. A prediction does not depend on the other rows of its batch. Small batches are predicted in the
event loop: to wake a thread costs as much as a prediction, and the two would compete for one interpreter.
Larger ones are predicted in a thread, so that the service answers other requests meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from gpexperts.serve.problems import Problem

__all__ = ["Batcher"]

T = TypeVar("T")
Predict = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
_BATCH = 256
"""Rows that are predicted together. Longer requests are predicted in pieces, between which others get their
turn."""
_SMALL = 32
"""Rows of a batch that is predicted in the event loop."""
_TURNS = 2
"""Turns of the event loop before a batch is cut: requests that have arrived are read, and join it."""


class Batcher:
    """Predicts the rows of several requests together.

    Parameters
    ----------
    predict : callable
        X (n, d) ↦ mean (n,), std (n,).
    max_waiting : int
        Rows that may wait.
    on_batch : callable
        Is called with the number of rows of every batch.
    """

    def __init__(self, predict: Predict, max_waiting: int, on_batch: Callable[[int], None]) -> None:
        self._predict, self._max_waiting, self._on_batch = predict, max_waiting, on_batch
        self._thread: ThreadPoolExecutor | None = None
        self._pieces: deque[tuple[np.ndarray, asyncio.Future[tuple[np.ndarray, np.ndarray]]]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self.waiting = 0
        """Rows of all requests that are not yet done."""

    async def __call__(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (n,) and std (n,) of the rows X (n, d) of one request."""
        if self.waiting + len(X) > self._max_waiting:
            raise Problem(429, f"{self.waiting:,} rows are waiting already; try again in a moment.")
        self.waiting += len(X)
        try:
            parts = [
                await self._piece(X[start : start + _BATCH]) for start in range(0, max(1, len(X)), _BATCH)
            ]
        finally:
            self.waiting -= len(X)
        if len(parts) == 1:
            return parts[0]
        mean, std = zip(*parts, strict=True)
        return np.concatenate(mean), np.concatenate(std)

    def close(self) -> None:
        """End the thread; a further request starts another."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None

    async def run(self, function: Callable[[], T]) -> T:
        """Call a function in the thread that predicts."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="gpexperts-predict")
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def _piece(self, X: np.ndarray) -> asyncio.Future[tuple[np.ndarray, np.ndarray]]:
        future = asyncio.get_running_loop().create_future()
        self._pieces.append((X, future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return future

    async def _work(self) -> None:
        while self._pieces:
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            batch = [self._pieces.popleft()]
            n_rows = len(batch[0][0])
            while self._pieces and n_rows + len(self._pieces[0][0]) <= _BATCH:
                batch.append(self._pieces.popleft())
                n_rows += len(batch[-1][0])
            X = batch[0][0] if len(batch) == 1 else np.concatenate([X for X, _ in batch])
            self._on_batch(n_rows)
            try:
                if n_rows <= _SMALL:
                    mean, std = self._predict(X)
                else:
                    mean, std = await self.run(lambda X=X: self._predict(X))  # type: ignore[misc]
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            start = 0
            for part, future in batch:
                end = start + len(part)
                if not future.done():  # the caller may have gone
                    future.set_result((mean[start:end], std[start:end]))
                start = end
