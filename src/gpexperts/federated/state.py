"""What a client remembers between messages: Flower may answer each of them in a new process."""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context

__all__ = ["State"]

_VALUES, _ARRAYS = "gpexperts.values", "gpexperts.arrays"


class State:
    """Values and arrays in the state of a Flower `Context`, which never leaves the client.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context) -> None:
        records = context.state
        if _VALUES not in records:
            records[_VALUES], records[_ARRAYS] = ConfigRecord(), ArrayRecord()
        self._values: Any = records.config_records[_VALUES]
        self._arrays: Any = records.array_records[_ARRAYS]

    def clear(self, *kept: str) -> None:
        """Forget everything but some values."""
        for name in [name for name in self._values if name not in kept]:
            del self._values[name]
        self._arrays.clear()

    def __contains__(self, name: str) -> bool:
        return name in self._values or name in self._arrays

    def value(self, name: str, default: Any = None) -> Any:
        """Return a value, or a default."""
        return self._values.get(name, default)

    def array(self, name: str) -> np.ndarray:
        """Return an array."""
        return np.asarray(self._arrays[name].numpy())

    def keep(self, **values: Any) -> None:
        """Store values and arrays."""
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                self._arrays[name] = Array(np.ascontiguousarray(value))
            else:
                self._values[name] = value

    def count(self, name: str, by: int = 1) -> int:
        """Add to a number and return it."""
        total = int(self.value(name, 0)) + by
        self.keep(**{name: total})
        return total
