"""The parameters: one table, which the constructor, the docstring, the checks and the options follow."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, WhiteKernel
from typer.testing import CliRunner

from gpexperts import DistributedGPRegressor
from gpexperts.aggregation import NPAE
from gpexperts.cli.app import app
from gpexperts.parameters import PARAMETERS, RENAMED
from gpexperts.selection import ClassifierSelector, KNNSelector, NearestRowsSelector
from gpexperts.settings import Settings, number_selected

DEFAULTS = {name: parameter.default for name, parameter in PARAMETERS.items()}


def rows(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)


# ------------------------------------------------------------------------------------ one table


def test_the_constructor_has_the_parameters_of_the_table() -> None:
    signature = inspect.signature(DistributedGPRegressor.__init__)
    shown = [p for name, p in signature.parameters.items() if name != "self"]
    assert [(p.name, p.default) for p in shown] == list(DEFAULTS.items())
    assert all(p.kind is p.KEYWORD_ONLY for p in shown)
    assert list(inspect.signature(DistributedGPRegressor).parameters) == list(
        PARAMETERS
    )  # as `help` shows it
    assert DistributedGPRegressor().get_params(deep=False) == DEFAULTS


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_parameter_is_in_the_docstring(name: str) -> None:
    parameter = PARAMETERS[name]
    doc = DistributedGPRegressor.__doc__
    assert f"\n    {name} : {parameter.accepts}, default={parameter.default!r}\n" in doc
    assert parameter.help.split(".")[0] in re.sub(r"\s+", " ", doc)


WRONG = {
    "categorical_features": 3.5,
    "n_experts": "many", "expert_size": 1.5, "partition": "nonsense", "kernel": "nonsense",
    "optimizer": "adam", "n_restarts": -1, "training": "half", "selection": "nonsense", "n_selected": 1.5,
    "n_neighbors": 1.5,
    "aggregation": "nonsense", "standardize": "no", "memory_budget": "lots", "engine": 3, "n_jobs": 0,
    "random_state": "today", "verbose": "loud", "calibrate": "nonsense",
    "noise": "nonsense", "target_transform": "nonsense", "trend": "nonsense", "trend_role": "nonsense",
}  # fmt: skip


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_wrong_value_of_every_parameter_is_named(name: str) -> None:
    with pytest.raises((ValueError, TypeError), match=name) as error:
        DistributedGPRegressor(**{name: WRONG[name]}).fit(*rows())
    if WRONG[name] != 0:
        assert str(WRONG[name]) in str(error.value)


def test_the_help_of_fit_lists_exactly_the_parameters_with_a_flag() -> None:
    shown = CliRunner().invoke(app, ["fit", "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    for name, parameter in PARAMETERS.items():
        if name == "verbose":  # an option of the command, which also sets the parameter
            continue
        listed = re.search(rf"--{name.replace('_', '-')}\b", shown)
        assert bool(listed) == (parameter.flag is not None), name


# -------------------------------------------------------------------------------------- snapshots


def test_settings_are_a_snapshot() -> None:
    aggregation, selection = NPAE(), KNNSelector()
    settings = Settings.of(DEFAULTS | {"aggregation": aggregation, "selection": selection})
    aggregation.nugget, selection.metric = 0.5, "hamming"
    assert settings.aggregator.nugget == 1e-8
    assert settings.selector.metric == "euclidean"


def test_names_become_stages() -> None:
    from sklearn.naive_bayes import GaussianNB

    settings = Settings.of(DEFAULTS)
    assert isinstance(settings.selector, NearestRowsSelector)
    assert isinstance(settings.aggregator, NPAE)
    assert isinstance(Settings.of(DEFAULTS | {"selection": GaussianNB()}).selector, ClassifierSelector)
    assert Settings.of(DEFAULTS | {"partition": [0, 1]}).partitioner is None


def test_budgets_are_shares_of_the_memory_budget() -> None:
    settings = Settings.of(DEFAULTS | {"memory_budget": "100MB"})
    assert settings.factor_budget == 50_000_000
    assert settings.work_budget == 25_000_000
    large = Settings.of(DEFAULTS | {"memory_budget": "10GiB"})
    assert large.factor_budget + large.work_budget <= 10 * 1024**3


# -------------------------------------------------------------------------------------------- K


@given(M=st.integers(1, 500), ratio=st.floats(0.0, 1.0, exclude_min=True))
def test_a_ratio_of_the_experts(M: int, ratio: float) -> None:
    K = number_selected(ratio, M, given=M)
    assert 1 <= K <= M
    assert abs(K - ratio * M) <= 0.5 or K == 1


def test_one_is_one_expert_and_one_point_zero_is_all() -> None:
    assert number_selected(1, 7, given=7) == 1
    assert number_selected(1.0, 7, given=7) == 7
    assert number_selected(0.5, 7, given=7) == 4  # ⌊3.5 + ½⌋
    assert number_selected(9, 7, given=None) == 7
    assert number_selected(9, 7, given=9) == 7
    assert number_selected(np.int64(2), 7, given=7) == 2
    assert number_selected(np.float32(0.5), 8, given=8) == 4


# ------------------------------------------------------------------- names and habits of scikit-learn


@pytest.mark.parametrize("value", [RBF(), 5, "rbf"], ids=str)
def test_a_positional_argument_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"takes keyword arguments only, got .* by position") as error:
        DistributedGPRegressor(value)
    assert ("Write kernel=" in str(error.value)) == isinstance(value, RBF)


@pytest.mark.parametrize(
    ("name", "instead"),
    [("normalize_y", "standardize"), ("alpha", "WhiteKernel"), ("n_restarts_optimizer", "use n_restarts"),
     ("copy_X_train", "leave it out"), ("n_targets", "leave it out"), ("share_inputs", "leave it out")],
)  # fmt: skip
def test_the_error_of_another_library_s_name_says_what_to_use(name: str, instead: str) -> None:
    assert name in RENAMED
    with pytest.raises(TypeError, match=f"no parameter '{name}': .*{instead}"):
        DistributedGPRegressor(**{name: 1})


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(TypeError, match="n_expert"):
        DistributedGPRegressor(n_expert=4)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [({"kernel": None}, {"kernel": "auto"}), ({"optimizer": "fmin_l_bfgs_b"}, {"optimizer": "lbfgs"})],
)
def test_values_of_scikit_learn_mean_the_same(theirs: dict, ours: dict) -> None:
    X, y = rows()
    common = {"n_jobs": 1, "random_state": 0, "n_experts": 2, "n_selected": 1}
    if "kernel" not in theirs:
        common["kernel"] = "rbf"
    model = DistributedGPRegressor(**common, **theirs).fit(X, y)
    assert model.get_params()[next(iter(theirs))] == next(iter(theirs.values()))  # as the user gave it
    expected = DistributedGPRegressor(**common, **ours).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_a_compound_kernel_is_refused() -> None:
    kernel = CompoundKernel([RBF(), WhiteKernel()])
    with pytest.raises(ValueError, match="CompoundKernel"):
        DistributedGPRegressor(kernel=kernel).fit(*rows())
