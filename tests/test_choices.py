"""A decision, its reason and its evidence."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from gpexperts import Choice


def test_a_choice_is_printed_with_its_reason() -> None:
    choice = Choice(2, "NLPD 0.41 on 500 held-out rows", {"nlpd": {1: 0.45, 2: 0.41}})
    assert str(choice) == "2: NLPD 0.41 on 500 held-out rows"
    assert Choice("rbf", "given").evidence == {}
    with pytest.raises(FrozenInstanceError):
        choice.value = 3
