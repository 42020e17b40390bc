"""scikit-learn's own tests of GaussianProcessRegressor, as installed, run against the drop-in.

They run twice: as it is, and with `exact_rows` 0, so that the distributed regressor is fitted to every data
set. The second run has exceptions, each with its reason.
"""

from __future__ import annotations

import importlib.util
import inspect
from types import ModuleType
from typing import Any

import pytest

from gpexperts import GaussianProcessRegressor

pytestmark = pytest.mark.filterwarnings("default")

MATRIX = "needs a matrix of all rows: log_marginal_likelihood of other hyperparameters, alpha_ or L_"
OPTIMIZER = "an optimizer that is a function is refused in words"
EXCEPTIONS: dict[str, str] = {}
"""Tests that fail with `exact_rows` 0, and why."""


class AlwaysDistributed(GaussianProcessRegressor):
    exact_rows = 0


def sklearn_tests(estimator: type, name: str) -> ModuleType:
    """Return scikit-learn's module of tests, with its estimator replaced before the tests are collected."""
    spec = importlib.util.find_spec("sklearn.gaussian_process.tests.test_gpr")
    assert spec is not None
    assert spec.origin is not None
    spec = importlib.util.spec_from_file_location(name, spec.origin)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.GaussianProcessRegressor = estimator  # type: ignore[attr-defined]
    return module


def collected(estimator: type, name: str, exceptions: dict[str, str]) -> type:
    """Return a class of tests that pytest collects."""
    tests: dict[str, Any] = {}
    for test, function in vars(sklearn_tests(estimator, name)).items():
        if test.startswith("test_") and inspect.isfunction(function):
            marks = getattr(function, "pytestmark", [])
            for at, mark in enumerate(marks):
                if mark.name == "xfail":  # as scikit-learn runs them: a pass is no failure
                    marks[at] = pytest.mark.xfail(strict=False, **mark.kwargs).mark
            if test in exceptions:
                function = pytest.mark.skip(reason=exceptions[test])(function)
            tests[test] = staticmethod(function)
    assert set(exceptions) <= set(tests)
    return type(name, (), tests)


TestDropIn = collected(GaussianProcessRegressor, "TestDropIn", {})
TestAlwaysDistributed = collected(AlwaysDistributed, "TestAlwaysDistributed", EXCEPTIONS)
