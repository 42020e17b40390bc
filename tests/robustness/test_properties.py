"""Invariances on random problems, sizes and settings: order, names, units, batches, engines.

Hyperparameters are given, since that makes the identities exact: training would stop at a slightly
different θ. Rows are few, so that an example takes milliseconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Matern, WhiteKernel

from gpexperts import DistributedGPRegressor, load
from gpexperts.aggregation import AGGREGATORS
from gpexperts.engines import Engine
from gpexperts.engines.base import Item, Result
from gpexperts.selection import SELECTORS

DETERMINED = ("all", "knn", "nearest_rows")
"""Selections that see neither the order of rows nor the names of experts: a network starts from random
weights in the order of both, and the graph of two experts finds both equally important."""
TOLERANCE = 1e-7
"""Of the signal's standard deviation. NPAE's nugget of 1e-8 leaves as many digits of sixteen."""

few = settings(max_examples=int(os.environ.get("GPEXPERTS_EXAMPLES", "20")))
"""Enough to notice a change; the slow suite looks further, with other examples each time."""
if "GPEXPERTS_EXAMPLES" in os.environ:
    few = settings(few, derandomize=False, database=None)


@dataclass(frozen=True)
class Case:
    """A problem and its settings."""

    X: np.ndarray
    y: np.ndarray
    labels: np.ndarray
    X_new: np.ndarray
    length_scale: np.ndarray
    noise: float
    nu: float
    rule: str
    selection: str
    n_selected: int

    @property
    def n_experts(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def kernel(self) -> Kernel:
        return ConstantKernel(1.3) * Matern(self.length_scale, nu=self.nu) + WhiteKernel(self.noise)

    @property
    def standardised(self) -> dict[str, Any]:
        """A named kernel, in standardised units."""
        names = {0.5: "matern12", 1.5: "matern32", 2.5: "matern52", np.inf: "rbf"}
        return {"standardize": True, "kernel": names[self.nu]}

    def fit(self, **changes: Any) -> DistributedGPRegressor:
        given = {
            "partition": self.labels,
            "kernel": self.kernel,
            "optimizer": None,
            "standardize": False,
            "aggregation": self.rule,
            "selection": self.selection,
            "n_selected": "auto" if self.selection == "all" else self.n_selected,
            "n_jobs": 1,
            "random_state": 0,
        }
        return DistributedGPRegressor(**(given | changes)).fit(self.X, self.y)


@st.composite
def cases(draw: Callable[..., Any], selections: Sequence[str] = tuple(SELECTORS)) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    M, d = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    n = draw(st.integers(3 * M + 3, 40))
    rule = draw(st.sampled_from(list(AGGREGATORS)))
    X = rng.normal(size=(n, d))
    shape = (n, 2) if draw(st.booleans()) else (n,)
    # GRBCM's shared rows are labelled −1.
    labels = np.arange(n) % (M + 1) - 1 if AGGREGATORS[rule].needs_communication else np.arange(n) % M
    return Case(
        X=X,
        y=np.sin(2 * X[:, :1] + np.arange(shape[-1] if len(shape) > 1 else 1)).reshape(shape)
        + 0.1 * rng.normal(size=shape),
        labels=labels,
        X_new=1.5 * rng.normal(size=(draw(st.integers(1, 12)), d)),
        length_scale=rng.uniform(0.5, 2.0, size=d),
        noise=draw(st.sampled_from([1e-4, 1e-2, 1.0])),
        nu=draw(st.sampled_from([0.5, 1.5, 2.5, np.inf])),
        rule=rule,
        selection=draw(st.sampled_from(list(selections))),
        n_selected=draw(st.integers(1, M)),
    )


def predictions(model: DistributedGPRegressor, X: np.ndarray) -> np.ndarray:
    """Mean, standard deviation of an observation, and of the function."""
    mean, std = model.predict(X, return_std=True)
    _, latent = model.predict(X, return_std=True, latent=True)
    return np.stack([mean, std, latent])


def assert_same(one: np.ndarray, other: np.ndarray) -> None:
    np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE)


@few
@given(cases(DETERMINED), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(case: Case, random: Any) -> None:
    order = np.array(random.sample(range(len(case.X)), len(case.X)))
    moved = replace(case, X=case.X[order], y=case.y[order], labels=case.labels[order])
    assert_same(predictions(moved.fit(), case.X_new), predictions(case.fit(), case.X_new))


@few
@given(cases(DETERMINED), st.randoms(use_true_random=False))
def test_the_names_of_experts_do_not_matter(case: Case, random: Any) -> None:
    names = np.array([*random.sample(range(case.n_experts), case.n_experts), -1])
    renamed = replace(case, labels=names[case.labels])
    one, other = case.fit(), renamed.fit()
    assert_same(predictions(other, case.X_new), predictions(one, case.X_new))
    np.testing.assert_array_equal(np.sort(other.select(case.X_new)), np.sort(names[one.select(case.X_new)]))


@few
@given(
    cases(),
    st.sampled_from([-3.0, 1e-6, 1.0, 7.5, 1e9]),
    st.sampled_from([0.0, -2.5, 1e3]),
)
def test_an_affine_change_of_the_target_changes_the_prediction_likewise(
    case: Case, a: float, b: float
) -> None:
    # b counts in units of a: what an offset of 1e9 takes from targets of 1e-6 was never there to be learned.
    one = predictions(case.fit(**case.standardised), case.X_new)
    changed = replace(case, y=a * (case.y + b))
    other = predictions(changed.fit(**case.standardised), case.X_new)
    assert_same(other[0] / a - b, one[0])
    assert_same(other[1:] / abs(a), one[1:])


@pytest.mark.parametrize("a", [-3.0, 1e-6, 7.5, 1e9])
def test_the_choice_between_two_equal_experts_does_not_depend_on_units(a: float) -> None:
    """A graph of two experts finds both equally important: the last bit must not decide."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(9, 1))
        y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=9)
        case = Case(
            X, y, np.arange(9) % 2, X[:1], np.ones(1), 1e-4, 0.5, rule="poe", selection="ggm", n_selected=1
        )
        assert case.fit(**case.standardised).select(X[:1]) == 0
        assert replace(case, y=a * y).fit(**case.standardised).select(X[:1]) == 0


@few
@given(cases(), st.sampled_from([1e-100, 1e-3, 0.3, 2.0, 1e6, 1e100]))
def test_the_unit_of_an_input_does_not_matter(case: Case, unit: float) -> None:
    if case.selection != "all":  # distances between inputs of different units are another matter
        case = replace(case, selection="all")
    units = np.ones(case.X.shape[1])
    units[0] = unit
    scaled = replace(case, X=case.X * units, X_new=case.X_new * units, length_scale=case.length_scale * units)
    assert_same(predictions(scaled.fit(), scaled.X_new), predictions(case.fit(), case.X_new))


@few
@given(cases(), st.sampled_from([1e-100, 1e-3, 7.0, 1e100]))
def test_units_do_not_matter_at_all_where_inputs_are_standardised(case: Case, unit: float) -> None:
    units = np.full(case.X.shape[1], unit)
    units[0] = 1 / unit
    scaled = replace(case, X=case.X * units, X_new=case.X_new * units)
    assert_same(
        predictions(scaled.fit(**case.standardised), scaled.X_new),
        predictions(case.fit(**case.standardised), case.X_new),
    )


@few
@given(cases(), st.integers(0, 11), st.integers(0, 12))
def test_a_repeated_query_gets_the_same_prediction(case: Case, which: int, where: int) -> None:
    which %= len(case.X_new)
    where %= len(case.X_new) + 1
    model = case.fit()
    alone = predictions(model, case.X_new)
    doubled = predictions(model, np.insert(case.X_new, where, case.X_new[which], axis=0))
    assert_same(np.delete(doubled, where, axis=1), alone)
    assert_same(doubled[:, where], alone[:, which])


@few
@given(cases(), st.integers(0, 12))
def test_a_batch_may_be_split_anywhere(case: Case, where: int) -> None:
    where %= len(case.X_new) + 1
    model = case.fit()
    parts = [predictions(model, part) for part in (case.X_new[:where], case.X_new[where:])]
    assert_same(np.concatenate(parts, axis=1), predictions(model, case.X_new))


@few
@given(cases([name for name in SELECTORS if name != "all"]))
def test_selecting_every_expert_is_no_selection(case: Case) -> None:
    chosen = case.fit(n_selected=1.0)
    assert_same(
        predictions(chosen, case.X_new), predictions(case.fit(selection="all", n_selected="auto"), case.X_new)
    )


@few
@given(cases(), st.booleans())
def test_a_saved_model_predicts_the_same_to_the_last_bit(case: Case, include_factors: bool) -> None:
    model = case.fit()
    before = predictions(model, case.X_new)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gpx"
        model.save(path, include_factors=include_factors)
        np.testing.assert_array_equal(predictions(load(path), case.X_new), before)


@few
@given(cases(), st.booleans())
def test_the_number_of_threads_does_not_change_a_bit(case: Case, standardize: bool) -> None:
    one, two = (predictions(case.fit(n_jobs=n, standardize=standardize), case.X_new) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


class Serial(Engine):
    """One after the other, in the order of the items, with the BLAS as it is."""

    @property
    def n_workers(self) -> int:
        return 1

    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        costs: Sequence[float] | None = None,
    ) -> list[Result]:
        return [function(item) for item in items]


@few
@given(cases())
def test_the_engine_does_not_matter(case: Case) -> None:
    assert_same(predictions(case.fit(engine=Serial()), case.X_new), predictions(case.fit(), case.X_new))


@few
@given(cases(), st.integers(1, 5))
def test_the_size_of_a_chunk_does_not_matter(case: Case, size: int) -> None:
    model = case.fit()
    whole = predictions(model, case.X_new)
    with patch("gpexperts.predictor.batch_size", lambda *_: size):
        assert_same(predictions(model, case.X_new), whole)
    assert_same(predictions(case.fit(memory_budget="1MB"), case.X_new), whole)


@few
@given(cases())
def test_single_precision_input_is_converted_exactly(case: Case) -> None:
    single = replace(case, X=case.X.astype("f4"), y=case.y.astype("f4"), X_new=case.X_new.astype("f4"))
    double = replace(case, X=single.X.astype("f8"), y=single.y.astype("f8"), X_new=single.X_new.astype("f8"))
    in_single = predictions(single.fit(), single.X_new)
    assert in_single.dtype == np.float64
    np.testing.assert_array_equal(in_single, predictions(double.fit(), double.X_new))


@pytest.mark.slow
def test_all_of_this_with_many_random_examples() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", __file__],
        env={**os.environ, "GPEXPERTS_EXAMPLES": "300"},
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stdout
