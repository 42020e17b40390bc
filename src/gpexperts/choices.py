"""What a parameter left at "auto" was resolved to, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Choice"]


@dataclass(frozen=True)
class Choice:
    """One decision of the library."""

    value: Any
    """What was chosen."""
    reason: str
    """One sentence, with the numbers that decided."""
    evidence: dict[str, Any] = field(default_factory=dict)
    """The scores of all alternatives, by name."""

    def __str__(self) -> str:
        return f"{self.value}: {self.reason}"
