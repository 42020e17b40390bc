"""Ctrl-C in the training of a network is raised, whatever the text of scikit-learn's warning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from gpexperts.selection.interrupts import interrupts_raised


def test_an_interrupt_in_scikit_learn_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    X = np.random.default_rng(0).normal(size=(40, 2))
    monkeypatch.setattr(MLPClassifier, "_backprop", interrupted)
    with pytest.raises(KeyboardInterrupt), interrupts_raised():
        MLPClassifier(max_iter=3).fit(X, X[:, 0] > 0)


def test_other_warnings_are_given_and_convergence_is_ignored() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with interrupts_raised():
            warnings.warn("not converged", ConvergenceWarning, stacklevel=1)
            warnings.warn("something else", UserWarning, stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["something else"]
