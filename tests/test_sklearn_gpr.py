"""scikit-learn's own tests of GaussianProcessRegressor, as installed, run against the drop-in.

`TestDropIn`: as it is. There are no exceptions beside the tests that scikit-learn itself expects to fail.
Hyperparameters are trained by scikit-learn's code; predictions are those of our estimator, unless the kernel
is one of structured inputs.

`TestManyRows`: every data set has more than `exact_rows` rows, so that our estimator also trains and samples.
`EXCEPTIONS` lists what is then different, which must fail, and `NOT_RUN` what would take minutes.

`tests/test_drop_in.py` compares numbers, also for more rows than `exact_rows`.
"""

from __future__ import annotations

import importlib.util
import inspect
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor as Exact
from sklearn.gaussian_process.tests._mini_sequence_kernel import MiniSeqKernel

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


def collected(estimator: type, name: str, exceptions: dict[str, str], not_run: dict[str, str]) -> type:
    """Return a class of tests that pytest collects; those of `exceptions` must fail."""
    tests: dict[str, Any] = {}
    for test, function in vars(sklearn_tests(estimator, name)).items():
        if test.startswith("test_") and inspect.isfunction(function):
            marks = getattr(function, "pytestmark", [])
            for at, mark in enumerate(marks):
                if mark.name == "xfail":  # as scikit-learn runs them: a pass is no failure
                    marks[at] = pytest.mark.xfail(strict=False, **mark.kwargs).mark
            tests[test] = staticmethod(function)
    for test in not_run:
        del tests[test]
    for test, reason in exceptions.items():
        tests[test] = staticmethod(pytest.mark.xfail(strict=True, reason=reason)(tests[test].__func__))
    return type(name, (), tests)


TestDropIn = collected(GaussianProcessRegressor, "TestDropIn", {}, {})


class ManyRows(GaussianProcessRegressor):
    """Every data set has more rows than this."""

    exact_rows = 0


LIKELIHOOD = "the likelihood of given hyperparameters needs a matrix of all rows"
EXCEPTIONS = {
    "test_lml_improving": LIKELIHOOD,
    "test_lml_precomputed": LIKELIHOOD,
    "test_lml_without_cloning_kernel": LIKELIHOOD,
    "test_converged_to_local_maximum": LIKELIHOOD,
    "test_random_starts": LIKELIHOOD,
    "test_custom_optimizer": "an optimizer that is a function needs the likelihood of all rows",
    "test_gpr_correct_error_message": "a singular matrix gets jitter instead of an error",
    "test_warning_bounds": "the warning of a hyperparameter at its bound has other words",
    "test_y_multioutput": "log θ of one and of two equal targets agrees to 3e-4 instead of 1e-4",
}
NOT_RUN = {
    "test_lml_gradient": LIKELIHOOD + ", and 65 fits would show it",
    "test_sample_statistics": "300,000 functions of each kernel take a minute; see tests/joint",
}
TestManyRows = collected(ManyRows, "TestManyRows", EXCEPTIONS, NOT_RUN)


def test_structured_inputs_of_any_number_are_fitted_by_scikit_learn() -> None:
    words, lengths = ["A", "AB", "ABB", "BBBA"], np.array([1.0, 2.0, 3.0, 4.0])
    kernel = MiniSeqKernel(baseline_similarity=0.5)
    ours, theirs = (one(kernel, alpha=0.1).fit(words, lengths) for one in (ManyRows, Exact))
    np.testing.assert_array_equal(ours.predict(["BA"]), theirs.predict(["BA"]))
    theta = ours.kernel_.theta
    assert ours.log_marginal_likelihood(theta) == theirs.log_marginal_likelihood(theta)
