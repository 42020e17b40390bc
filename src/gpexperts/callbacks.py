"""scikit-learn's callbacks (from 1.9), whose hooks for estimators are private and may change.

This module is the only one that uses them. If they have changed, callbacks are not notified, and a warning
says so; the fit goes on.
"""

from __future__ import annotations

import warnings
from typing import Any

from gpexperts.exceptions import GpexpertsWarning

__all__ = ["CallbackReporter", "CallbackSupport", "callback_reporter", "with_callbacks"]

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks
except ImportError:  # scikit-learn before 1.9 has no callbacks

    class CallbackSupport:  # type: ignore[no-redef]
        """Replaces scikit-learn's mixin, which has `set_callbacks`."""

    def with_callbacks(method: Any) -> Any:
        return method


_HOOKS = ("subcontext", "call_on_fit_task_begin", "call_on_fit_task_end")


class CallbackReporter:
    """Notify scikit-learn's callbacks: `fit` is the task, its stages are subtasks, their steps leaves.

    A callback cannot stop a fit early: the model after a single step of the optimiser is not complete.

    Parameters
    ----------
    estimator : estimator
    context : CallbackContext
        Of its fit.
    """

    def __init__(self, estimator: Any, context: Any) -> None:
        self._estimator, self._fit = estimator, context
        self._fit.call_on_fit_task_begin(estimator=estimator)
        self._stage: Any = None

    def message(self, level: int, text: str) -> None:
        pass

    def start(self, stage: str, total: int | None) -> None:
        self._end_stage()
        self._stage = self._fit.subcontext(task_name=stage, max_subtasks=None)
        self._stage.call_on_fit_task_begin(estimator=self._estimator)

    def advance(self, steps: int, note: str) -> None:
        step = self._stage.subcontext(task_name=note)
        step.call_on_fit_task_begin(estimator=self._estimator)
        step.call_on_fit_task_end(estimator=self._estimator)

    def finish(self) -> None:
        self._end_stage()
        self._fit.call_on_fit_task_end(estimator=self._estimator)

    def _end_stage(self) -> None:
        if self._stage is not None:
            self._stage.call_on_fit_task_end(estimator=self._estimator)
            self._stage = None


def callback_reporter(estimator: Any) -> CallbackReporter | None:
    """Return the reporter to the callbacks of an estimator or of its meta-estimator, if there are any."""
    if not (hasattr(estimator, "_skl_callbacks") or hasattr(estimator, "_parent_callback_ctx")):
        return None
    start = getattr(estimator, "_init_callback_context", None)
    context = None if start is None else start(max_subtasks=None)
    if not all(hasattr(context, hook) for hook in _HOOKS):
        warnings.warn(
            "Callbacks are not notified of this fit: this version of scikit-learn has other hooks for them.",
            GpexpertsWarning,
            stacklevel=2,
        )
        return None
    return CallbackReporter(estimator, context)
