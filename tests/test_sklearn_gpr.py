"""scikit-learn's own tests of GaussianProcessRegressor, as installed, run against the drop-in: all of them.

There are no exceptions beside the tests that scikit-learn itself expects to fail. Hyperparameters are trained
by scikit-learn's code; predictions are those of our estimator, unless the kernel is one of structured inputs.
`tests/test_drop_in.py` compares numbers, also for more rows than `exact_rows`.
"""

from __future__ import annotations

import importlib.util
import inspect
from types import ModuleType
from typing import Any

import pytest

from gpexperts import GaussianProcessRegressor

pytestmark = [
    pytest.mark.filterwarnings("default"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::gpexperts.exceptions.ConstantTargetWarning"),
]


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


def collected(estimator: type, name: str) -> type:
    """Return a class of tests that pytest collects."""
    tests: dict[str, Any] = {}
    for test, function in vars(sklearn_tests(estimator, name)).items():
        if test.startswith("test_") and inspect.isfunction(function):
            marks = getattr(function, "pytestmark", [])
            for at, mark in enumerate(marks):
                if mark.name == "xfail":  # as scikit-learn runs them: a pass is no failure
                    marks[at] = pytest.mark.xfail(strict=False, **mark.kwargs).mark
            tests[test] = staticmethod(function)
    return type(name, (), tests)


TestDropIn = collected(GaussianProcessRegressor, "TestDropIn")
