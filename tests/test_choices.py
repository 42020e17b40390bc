"""A decision, its reason and its evidence."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from gpexperts import Choice
from gpexperts.choices import margins


def test_a_choice_is_printed_with_its_reason() -> None:
    choice = Choice(2, "NLPD 0.41 on 500 held-out rows", {"nlpd": {1: 0.45, 2: 0.41}})
    assert str(choice) == "2: NLPD 0.41 on 500 held-out rows"
    assert Choice("rbf", "given").evidence == {}
    with pytest.raises(FrozenInstanceError):
        choice.value = 3


def test_margins_name_the_best_alternatives_first() -> None:
    losses = {"rbf": 0.5, "matern32": 0.45, "matern52": 0.46, "matern12": 0.45, "linear": 9.0}
    assert margins("matern52", losses) == (
        "0.01 worse than matern12, 0.01 worse than matern32, 0.04 better than rbf"
    )
    assert margins("matern32", losses).startswith("equal to matern12, ")
    assert margins("rbf", {"rbf": 1.0}) == ""
