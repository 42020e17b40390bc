"""scikit-learn's hooks for callbacks: this test fails first when they change, and a fit goes on without."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn

from gpexperts import DistributedGPRegressor
from gpexperts.callbacks import CallbackReporter, callback_reporter
from gpexperts.exceptions import GpexpertsWarning

has_callbacks = pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9), reason="scikit-learn has callbacks from 1.9"
)


class Silent:
    """A callback that does nothing, and starts no thread."""

    def setup(self, estimator: object, context: object) -> None:
        pass

    on_fit_task_begin = on_fit_task_end = teardown = setup


def with_a_callback() -> DistributedGPRegressor:
    return DistributedGPRegressor(n_experts=1, optimizer=None).set_callbacks(Silent())


def test_without_callbacks_nothing_is_reported() -> None:
    assert callback_reporter(DistributedGPRegressor()) is None


@has_callbacks
def test_the_private_hooks_of_scikit_learn_are_there() -> None:
    assert isinstance(callback_reporter(with_a_callback()), CallbackReporter)


@has_callbacks
@pytest.mark.parametrize("hook", ["_init_callback_context", "another context"])
def test_with_other_hooks_the_fit_goes_on(monkeypatch: pytest.MonkeyPatch, hook: str) -> None:
    X = np.linspace(0, 1, 20)[:, None]
    expected = DistributedGPRegressor(n_experts=1, optimizer=None).fit(X, X[:, 0]).predict(X)
    model = with_a_callback()
    replaced = None if hook == "_init_callback_context" else lambda self, **_: object()
    monkeypatch.setattr(type(model), "_init_callback_context", replaced, raising=True)
    with pytest.warns(GpexpertsWarning, match="Callbacks are not notified"):
        model.fit(X, X[:, 0])
    np.testing.assert_array_equal(model.predict(X), expected)
