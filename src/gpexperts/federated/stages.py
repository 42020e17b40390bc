"""Which aggregators and selectors can be used in a federation, and why the others cannot."""

from __future__ import annotations

from typing import Any

from gpexperts.aggregation import AGGREGATORS, Aggregator
from gpexperts.selection import SELECTORS, KNNSelector, Selector
from gpexperts.validation import member

__all__ = [
    "CERTAIN",
    "RULES",
    "SELECTIONS",
    "aggregator_named",
    "checked_aggregation",
    "checked_selection",
    "selector_named",
]

RULES = ("poe", "gpoe", "bcm", "rbcm", "grbcm")
SELECTIONS = ("auto", "certain", "knn", "dnn", "all")
CERTAIN = "certain"
_REASONS = {
    "npae": "it needs k(X_i, X_j) of rows that different clients hold, and rows do not travel",
    "ggm": "it needs the predictions of all experts at training inputs, and inputs do not travel",
    "nearest_rows": "it compares queries with single training rows, and rows do not travel",
}


def checked_aggregation(aggregation: Any) -> str:
    """Return the name of a rule that is allowed."""
    if isinstance(aggregation, str) and aggregation in RULES:
        return aggregation
    raise ValueError(_refusal("aggregation", aggregation, RULES))


def checked_selection(selection: Any) -> str:
    """Return the name of a selection that is allowed; "auto" is "certain"."""
    if isinstance(selection, str) and selection in SELECTIONS:
        return CERTAIN if selection == "auto" else selection
    raise ValueError(_refusal("selection", selection, SELECTIONS))


def _refusal(parameter: str, value: Any, allowed: tuple[str, ...]) -> str:
    reason = _REASONS.get(value, "") if isinstance(value, str) else ""
    return (
        f"{parameter}={value!r} is not possible in a federation{reason and f': {reason}'}. "
        f"Use one of {', '.join(map(repr, allowed))}."
    )


def aggregator_named(name: str) -> Aggregator:
    """Return a new aggregator."""
    return member(checked_aggregation(name), AGGREGATORS, Aggregator, "aggregation")


def selector_named(name: str) -> Selector:
    """Return a new selector; for "certain" all experts, of which the aggregation uses the most certain ones.

    A client that scores its own rows uses centroids in place of the network of "dnn", which is trained later.
    """
    name = checked_selection(name)
    if name == "dnn":
        return KNNSelector(metric="kernel")
    return member("all" if name == CERTAIN else name, SELECTORS, Selector, "selection")
