"""What every engine offers: an ordered map.

Experts and pairs of experts are independent pieces of work. An engine runs a function over them and
returns the results in the order of the items, whoever computed them and whenever; callers reduce in
that order, so that no answer depends on the engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["Engine"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Engine(ABC):
    """Where the work runs."""

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """How many pieces of work run at the same time."""

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
