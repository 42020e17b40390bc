"""What every engine offers: an ordered map, and a way to keep data where the work is done.

Experts and pairs of experts are independent pieces of work. An engine runs a function over them and
returns the results in the order of the items, whoever computed them and whenever; callers reduce in
that order, so that no answer depends on the engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

from gpexperts.engines.traffic import Travelled

__all__ = ["Engine", "Held"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Held(ABC, Generic[Item]):
    """Items that stay where they are worked on, while small arguments come and go."""

    @abstractmethod
    def map(self, function: Callable[[Item, Any], Result], argument: Any) -> list[Result]:
        """Return ``[function(item, argument) for item in items]``; both must be picklable."""


class Engine(ABC):
    """Where the work runs."""

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """How many pieces of work run at the same time."""

    @property
    def worker_memory(self) -> int | None:
        """Bytes that a piece of work may use; None is what this process may."""
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
            Roughly the number of operations of each item; dear items are started first.
        """

    def hold(self, items: Sequence[Item], costs: Sequence[float]) -> Held[Item]:
        """Keep items that many calls will work on; by default they stay in this process."""
        return _HeldHere(self, items, costs)

    def counting(self, travelled: Travelled, stage: str) -> AbstractContextManager[None]:
        """Count in ``travelled[stage]`` what leaves and enters this process inside; by default nothing."""
        return nullcontext()

    def place(self, experts: Any, travelled: Travelled, memory_budget: Any) -> Any:
        """Bring fitted experts to where they will be asked; by default they stay in this process.

        What it costs to ask them is counted in `travelled`; what they keep there is bounded by the user's
        `memory_budget`.
        """
        return experts


class _HeldHere(Held[Item]):
    def __init__(self, engine: Engine, items: Sequence[Item], costs: Sequence[float]) -> None:
        self._engine, self._items, self._costs = engine, items, costs

    def map(self, function: Callable[[Item, Any], Result], argument: Any) -> list[Result]:
        return self._engine.map(lambda item: function(item, argument), self._items, self._costs)
