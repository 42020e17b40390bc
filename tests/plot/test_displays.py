"""Every display draws what it was given, on the axis it was given."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from scipy.stats import norm

from gpexperts import DistributedGPRegressor, plot
from gpexperts.plot.base import plane_of

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(200, 1))
Y = np.sin(8 * X[:, 0]) + 0.1 * RNG.standard_normal(200)


@pytest.fixture(scope="module")
def model() -> DistributedGPRegressor:
    return DistributedGPRegressor(n_experts=5, kernel="rbf", selection="ggm", random_state=0).fit(X, Y)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


DRAWN = {
    "PredictionDisplay1D": lambda m, ax: plot.PredictionDisplay1D.from_estimator(m, X, Y, ax=ax),
    "PredictedObservedDisplay": lambda m, ax: plot.PredictedObservedDisplay.from_estimator(m, X, Y, ax=ax),
    "CalibrationDisplay": lambda m, ax: plot.CalibrationDisplay.from_estimator(m, X, Y, ax=ax),
    "ExpertMapDisplay": lambda m, ax: plot.ExpertMapDisplay.from_estimator(m, X, ax=ax),
    "ExpertGraphDisplay": lambda m, ax: plot.ExpertGraphDisplay.from_estimator(m, ax=ax),
    "TraceDisplay": lambda m, ax: plot.TraceDisplay.from_estimator(m, ax=ax),
}


@pytest.mark.parametrize("name", plot.__all__)
def test_it_draws_on_the_given_axis(name: str, model: DistributedGPRegressor, ax) -> None:
    display = DRAWN[name](model, ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert ax.has_data()
    ax.figure.canvas.draw()


def test_calibrated_intervals_are_drawn_as_they_are_predicted(ax) -> None:
    model = DistributedGPRegressor(kernel="rbf", calibrate="conformal", random_state=0).fit(X, Y)
    lower, upper = model.predict_interval(X, 0.8)
    inside = (lower <= Y) & (upper >= Y)
    plot.PredictedObservedDisplay.from_estimator(model, X, Y, level=0.8, ax=ax)
    assert f"inside the 80 % interval ({inside.sum()})" in ax.get_legend_handles_labels()[1]
    display = plot.CalibrationDisplay.from_estimator(model, X, Y, ax=ax)
    assert display.shares[display.levels == 0.8] == pytest.approx(inside.mean())
    assert display.levels.max() == 0.98  # 50 rows were held out
    band = plot.PredictionDisplay1D.from_estimator(model, level=0.8)
    lower, upper = model.predict_interval(band.x[:, None], 0.8)
    np.testing.assert_allclose(band.mean + band.width * band.std, upper)
    plt.close(band.figure_)


def test_it_makes_a_figure_of_its_own(model: DistributedGPRegressor) -> None:
    display = plot.TraceDisplay.from_estimator(model)
    drawn = np.concatenate([line.get_ydata() for line in display.ax_.lines])
    np.testing.assert_array_equal(drawn, [row.log_marginal_likelihood for row in model.trace_])
    plt.close(display.figure_)


def test_stages_are_not_joined() -> None:
    X = RNG.uniform(size=(1700, 1))  # too many for the exact likelihood: several stages
    model = DistributedGPRegressor(kernel="rbf", n_experts=4, random_state=0)
    model.fit(X, np.sin(8 * X[:, 0]) + 0.1 * RNG.standard_normal(1700))
    display = plot.TraceDisplay.from_estimator(model)
    n_stages = model.trace_[-1].stage + 1
    assert len(display.ax_.lines) == n_stages > 1
    assert sum(len(line.get_ydata()) for line in display.ax_.lines) == len(model.trace_)
    plt.close(display.figure_)


def test_the_band_is_the_interval(model: DistributedGPRegressor, ax) -> None:
    display = plot.PredictionDisplay1D.from_estimator(model, level=0.9, ax=ax)
    mean, std = model.predict(display.x[:, None], return_std=True)
    upper = ax.collections[0].get_paths()[0].vertices[:, 1].max()
    assert upper == pytest.approx((mean + norm.ppf(0.95) * std).max())


def test_calibration_of_honest_and_of_overconfident_predictions(ax) -> None:
    y = RNG.standard_normal(5000)
    honest = plot.CalibrationDisplay.from_predictions(y, np.zeros(5000), np.ones(5000), ax=ax)
    assert np.abs(honest.shares - honest.levels).max() < 0.03
    bold = plot.CalibrationDisplay.from_predictions(y, np.zeros(5000), np.full(5000, 0.5), ax=ax)
    assert (bold.shares[10:90] < bold.levels[10:90] - 0.05).all()


def test_how_often_experts_are_asked(model: DistributedGPRegressor, ax) -> None:
    display = plot.ExpertMapDisplay.from_estimator(model, X, ax=ax)
    assert display.asked.sum() == model.select(X).size
    assert display.sizes.sum() == 200


def test_edges_are_the_partial_correlations(ax) -> None:
    precision = np.array([[2.0, -1.0, 0.0], [-1.0, 2.0, 0.5], [0.0, 0.5, 2.0]])
    plot.ExpertGraphDisplay.from_predictions(precision, [1], ax=ax)
    assert len(ax.lines) == 2
    assert [line.get_color() for line in ax.lines] == [plot.base.ACCENT, plot.base.SECOND]


def test_predictions_in_any_order_and_named_inputs(model: DistributedGPRegressor, ax) -> None:
    mean, std = model.predict(X, return_std=True)
    display = plot.PredictionDisplay1D.from_predictions(X, mean, std, y=Y, ax=ax)
    assert (np.diff(display.x) >= 0).all()
    plot.ExpertMapDisplay.from_predictions(np.eye(2), [1, 2], ax=ax)


def test_the_plane_holds_the_largest_spread() -> None:
    Z = RNG.standard_normal((500, 4)) * [1, 10, 0.1, 3]
    _, axes = plane_of(Z)
    assert abs(axes[1, 0]) > 0.99
    assert abs(axes[3, 1]) > 0.99
    np.testing.assert_allclose(axes.T @ axes, np.eye(2), atol=1e-12)


def test_more_than_one_input_or_output_is_refused() -> None:
    wide = DistributedGPRegressor(n_experts=1, optimizer=None).fit(np.c_[X, X], np.c_[Y, Y])
    with pytest.raises(ValueError, match="for models of one target; this one has 2"):
        plot.CalibrationDisplay.from_estimator(wide, X, Y)
    two = DistributedGPRegressor(n_experts=1, optimizer=None).fit(np.c_[X, X], Y)
    with pytest.raises(ValueError, match="models of one input; this one has 2"):
        plot.PredictionDisplay1D.from_estimator(two)
