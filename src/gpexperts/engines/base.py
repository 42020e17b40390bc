"""The contract of an engine: an ordered map, and items that are held where they are computed on.

Experts and pairs of experts are independent items. An engine applies a function to them and returns the
results in the order of the items. Callers reduce in that order, so that no result depends on the engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

__all__ = ["Engine", "Held", "Item", "Result"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Held(ABC, Generic[Item]):
    """Items that stay where they are computed on; only arguments and results are sent."""

    @abstractmethod
    def map(self, function: Callable[[Item, Any], Result], argument: Any) -> list[Result]:
        """Return ``[function(item, argument) for item in items]``; both must be picklable."""


class Engine(ABC):
    """Runs independent items in parallel."""

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """Number of items that run at the same time."""

    @property
    def worker_memory(self) -> int | None:
        """Bytes that one worker may use; None means the memory of this process."""
        return None

    @abstractmethod
    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        costs: Sequence[float] | None = None,
    ) -> list[Result]:
        """Return ``[function(item) for item in items]``.

        Parameters
        ----------
        function : callable
            Pure: its result depends on the item alone.
        items : sequence
        costs : sequence of float, optional
            Approximate number of operations of each item, for an even distribution of the work.

        Raises
        ------
        Exception
            The error of an item, if there is one.
        """

    def hold(self, items: Sequence[Item], costs: Sequence[float] | None = None) -> Held[Item]:
        """Hold items for several maps; by default they stay in this process."""
        return _HeldInProcess(self, items, costs)


class _HeldInProcess(Held[Item]):
    def __init__(self, engine: Engine, items: Sequence[Item], costs: Sequence[float] | None) -> None:
        self._engine, self._items, self._costs = engine, items, costs

    def map(self, function: Callable[[Item, Any], Result], argument: Any) -> list[Result]:
        return self._engine.map(lambda item: function(item, argument), self._items, self._costs)
