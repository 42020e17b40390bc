"""What a parameter left at "auto" was resolved to, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Choice", "margins"]

_MOST = 3
"""Alternatives that a reason names."""


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


def margins(chosen: str, losses: Mapping[str, float]) -> str:
    """Return by how much a choice is better, or worse, than the best of its alternatives.

    Parameters
    ----------
    chosen : str
        A key of `losses`.
    losses : mapping of str to float
        The loss of every alternative that was compared; smaller is better.

    Returns
    -------
    str
        Such as ``"0.035 better than rbf, 0.2 better than matern12"``; empty if nothing was compared.
    """
    others = sorted((loss, name) for name, loss in losses.items() if name != chosen)
    return ", ".join(f"{_margin(loss - losses[chosen])} {name}" for loss, name in others[:_MOST])


def _margin(difference: float) -> str:
    size = f"{abs(difference):.2g}"
    return f"{size} {'better' if difference > 0 else 'worse'} than" if difference else "equal to"
