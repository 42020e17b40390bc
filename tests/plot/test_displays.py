"""Every display draws its data on the given axis."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest

from gpexperts import DistributedGPRegressor, plot
from gpexperts.effects import Effect, most_relevant
from gpexperts.inspection import length_scales
from tests.problems import PLAIN

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(200, 1))
Y = np.sin(8 * X[:, 0]) + 0.1 * RNG.standard_normal(200)


@pytest.fixture(scope="module")
def model() -> DistributedGPRegressor:
    return DistributedGPRegressor(n_experts=5, kernel="rbf", selection="ggm", random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def own_model() -> DistributedGPRegressor:
    return DistributedGPRegressor(
        n_experts=5, kernel="rbf", n_neighbors=16, n_selected=0, random_state=0
    ).fit(X, Y)


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
    "ResidualsDisplay": lambda m, ax: plot.ResidualsDisplay.from_estimator(m, X, Y, ax=ax),
    "EffectDisplay": lambda m, ax: plot.EffectDisplay.from_estimator(m, n_rows=20, ax=[ax]),
    "TraceDisplay": lambda m, ax: plot.TraceDisplay.from_estimator(m, ax=ax),
}


ONE_INPUT = [name for name in plot.__all__ if name != "MapDisplay"]


@pytest.mark.parametrize("name", ONE_INPUT)
def test_models_without_selected_experts(name: str, own_model: DistributedGPRegressor, ax) -> None:
    DRAWN[name](own_model, ax)
    assert ax.has_data()
    ax.figure.canvas.draw()


@pytest.mark.parametrize("name", ONE_INPUT)
def test_from_estimator_draws_on_the_given_axis(name: str, model: DistributedGPRegressor, ax) -> None:
    display = DRAWN[name](model, ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert ax.has_data()
    ax.figure.canvas.draw()


def test_intervals_are_those_of_predict_interval(ax) -> None:
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
    np.testing.assert_allclose(band.upper, upper)
    plt.close(band.figure_)


def test_without_an_axis_a_figure_is_made(model: DistributedGPRegressor) -> None:
    display = plot.TraceDisplay.from_estimator(model)
    drawn = np.concatenate([line.get_ydata() for line in display.ax_.lines])
    np.testing.assert_array_equal(drawn, [row.log_marginal_likelihood for row in model.trace_])
    plt.close(display.figure_)


def test_stages_are_separate_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpexperts.training.schedule.EXACT", 0)  # no exact likelihood: several stages
    X = RNG.uniform(size=(300, 1))
    model = DistributedGPRegressor(
        kernel="rbf", n_experts=4, n_selected=1, n_neighbors=0, random_state=0, **PLAIN
    )
    model.fit(X, np.sin(8 * X[:, 0]) + 0.1 * RNG.standard_normal(300))
    display = plot.TraceDisplay.from_estimator(model)
    n_stages = model.trace_[-1].stage + 1
    assert len(display.ax_.lines) == n_stages > 1
    assert sum(len(line.get_ydata()) for line in display.ax_.lines) == len(model.trace_)
    plt.close(display.figure_)


def test_the_band_is_the_interval(model: DistributedGPRegressor, ax) -> None:
    display = plot.PredictionDisplay1D.from_estimator(model, level=0.9, ax=ax)
    mean, std = model.predict(display.x[:, None], return_std=True)
    upper = ax.collections[0].get_paths()[0].vertices[:, 1].max()
    assert upper == pytest.approx((mean + model.interval_width(0.9, std) * std).max())


def test_calibration_curve_of_calibrated_and_overconfident_predictions(ax) -> None:
    y = RNG.standard_normal(5000)
    calibrated = plot.CalibrationDisplay.from_predictions(y, np.zeros(5000), np.ones(5000), ax=ax)
    assert np.abs(calibrated.shares - calibrated.levels).max() < 0.03
    overconfident = plot.CalibrationDisplay.from_predictions(y, np.zeros(5000), np.full(5000, 0.5), ax=ax)
    assert (overconfident.shares[10:90] < overconfident.levels[10:90] - 0.05).all()


def test_expert_map_counts_selections(model: DistributedGPRegressor, ax) -> None:
    display = plot.ExpertMapDisplay.from_estimator(model, X, ax=ax)
    assert display.counts.sum() == model.select(X).size
    assert display.sizes.sum() == 200


def test_edges_are_the_partial_correlations(ax) -> None:
    precision = np.array([[2.0, -1.0, 0.0], [-1.0, 2.0, 0.5], [0.0, 0.5, 2.0]])
    plot.ExpertGraphDisplay.from_predictions(precision, [1], ax=ax)
    assert len(ax.lines) == 2
    assert [line.get_color() for line in ax.lines] == [plot.base.ACCENT, plot.base.SECOND]


def test_from_predictions_sorts_by_input(model: DistributedGPRegressor, ax) -> None:
    mean, std = model.predict(X, return_std=True)
    display = plot.PredictionDisplay1D.from_predictions(X, mean, std, y=Y, ax=ax)
    assert (np.diff(display.x) >= 0).all()


def test_expert_map_from_arrays(ax) -> None:
    display = plot.ExpertMapDisplay.from_predictions(np.eye(2), [1, 2], ax=ax)
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), display.positions)


def test_several_inputs_or_outputs_are_refused() -> None:
    wide = DistributedGPRegressor(n_experts=1, optimizer=None).fit(np.c_[X, X], np.c_[Y, Y])
    with pytest.raises(ValueError, match="for models of one target; this one has 2"):
        plot.CalibrationDisplay.from_estimator(wide, X, Y)
    two = DistributedGPRegressor(n_experts=1, optimizer=None).fit(np.c_[X, X], Y)
    with pytest.raises(ValueError, match="models of one input; this one has 2"):
        plot.PredictionDisplay1D.from_estimator(two)


# ------------------------------------------------------------------------- maps, effects, residuals


@pytest.fixture(scope="module")
def plane() -> tuple[DistributedGPRegressor, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.uniform([0, 40], [8, 48], size=(150, 2))
    y = np.sin(X[:, 0]) + 0.2 * (X[:, 1] - 44) + 0.05 * rng.standard_normal(150)
    model = DistributedGPRegressor(n_experts=2, kernel="rbf", n_neighbors=16, n_selected=0, random_state=0)
    return model.fit(X, y), X, y


def test_a_map_shows_predictions_at_the_coordinates_of_the_user(plane) -> None:
    model, X, y = plane
    display = plot.MapDisplay.from_estimator(model, X, y, n_grid=15)
    assert display.mean.shape == (15, 15)
    place = np.array([[display.x[3], display.y[11]]])
    mean, std = model.predict(place, return_std=True, latent=True)
    assert display.mean[11, 3] == pytest.approx(mean[0])
    assert display.std[11, 3] == pytest.approx(std[0])
    assert len(display.axes_) == 2
    assert display.axes_[0].get_xlim() == (display.x[0], display.x[-1])
    display.figure_.canvas.draw()
    plt.close(display.figure_)
    again = plot.MapDisplay.from_predictions(display.x, display.y, display.mean, display.std)
    plt.close(again.figure_)


def test_a_map_needs_two_inputs_and_two_axes(model: DistributedGPRegressor, plane, ax) -> None:
    with pytest.raises(ValueError, match="two or more inputs; this one has 1"):
        plot.MapDisplay.from_estimator(model)
    with pytest.raises(ValueError, match="MapDisplay needs 2 axes, got 1"):
        plot.MapDisplay.from_estimator(plane[0], n_grid=5, ax=ax)


def test_an_effect_is_the_average_prediction_over_the_rows(plane) -> None:
    model, X, _ = plane
    display = plot.EffectDisplay.from_estimator(model, X[:20], features=["x1", 0])
    assert [one.name for one in display.effects] == ["x1", "x0"]
    one = display.effects[0]
    Z = X[:20].copy()
    Z[:, 1] = one.values[4]
    assert one.mean[4] == pytest.approx(model.predict(Z).mean())
    assert one.high[4] == pytest.approx(np.quantile(model.predict(Z), 0.9))
    assert (one.low <= one.mean).all()
    plt.close(display.figure_)
    with pytest.raises(ValueError, match="no input 'height'; the inputs are x0, x1"):
        plot.EffectDisplay.from_estimator(model, features=["height"])


def test_a_date_has_effects_of_elapsed_time_and_of_its_cycles() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    when = pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.uniform(0, 30, 300), "D")
    y = np.sin(2 * np.pi * (when.hour + when.minute / 60) / 24) + 0.01 * rng.standard_normal(300)
    frame = pd.DataFrame({"when": when, "x": rng.uniform(size=300)})
    frame.loc[::30, ["when", "x"]] = None
    model = DistributedGPRegressor(kernel="rbf", n_experts=1, n_selected=1, n_neighbors=0, random_state=0)
    model.fit(frame, y)
    display = plot.EffectDisplay.from_estimator(model, frame, features=["when", "x"])
    elapsed, hour, weekday, number = display.effects
    assert [one.name for one in display.effects] == ["when", "when (hour)", "when (weekday)", "x"]
    assert elapsed.dates
    assert elapsed.values[0].startswith("2024-03-01")
    assert np.ptp(elapsed.mean) < 0.1  # the hours of the rows stay
    np.testing.assert_allclose(hour.mean, np.sin(2 * np.pi * np.arange(24) / 24), atol=0.1)
    assert weekday.values[0] == "Mon"
    assert all(isinstance(value, float) for value in number.values)
    display.figure_.canvas.draw()
    plt.close(display.figure_)


def test_the_most_relevant_input_is_not_the_one_with_the_shortest_length_scale() -> None:
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, size=(200, 2))
    model = DistributedGPRegressor(kernel="rbf", n_experts=1, n_selected=1, n_neighbors=0, random_state=0)
    model.fit(X, 10 * X[:, 0] + 0.5 * np.sin(9 * X[:, 1]) + 0.01 * rng.standard_normal(200))
    scales = length_scales(model)
    assert scales[1] < scales[0]
    assert [column.name for column in most_relevant(model, 1)] == ["x0"]


def test_an_outlier_does_not_squash_the_residuals(ax) -> None:
    y = RNG.standard_normal(400)
    y[7] = 1e4
    display = plot.ResidualsDisplay.from_predictions(y, np.zeros(400), np.ones(400), ax=ax)
    assert display.residual[7] == 1e4
    assert ax.get_ylim()[1] < 10
    assert "inside the 95 % interval" in ax.get_title()


def test_residuals_over_an_input(plane, ax) -> None:
    model, X, y = plane
    display = plot.ResidualsDisplay.from_estimator(model, X, y, feature=1, ax=ax)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(display.residual, (y - mean) / std)
    np.testing.assert_array_equal(display.x, X[:, 1])
    assert ax.get_xlabel() == "x1"


def test_leave_one_out_residuals_over_an_input(own_model: DistributedGPRegressor, ax) -> None:
    display = plot.ResidualsDisplay.from_estimator(own_model, X, feature=0, ax=ax)
    loo = own_model.loo()
    np.testing.assert_array_equal(display.x, X[loo.row, 0])
    np.testing.assert_array_equal(display.residual, loo.standardized_residual)
    with pytest.raises(ValueError, match="training rows X"):
        plot.ResidualsDisplay.from_estimator(own_model, feature=0, ax=ax)
    again = plot.ResidualsDisplay.from_predictions(Y, loo.mean, loo.std, ax=ax)
    np.testing.assert_allclose(again.residual, loo.standardized_residual, atol=1e-9)


NO_FORMULA = "price in US$, \x1b[31m cost in \\frac$\u202e"
"""Matplotlib reads a formula between dollar signs; it is an error if there is none."""


def test_names_are_drawn_as_they_are() -> None:
    names = [NO_FORMULA, "length" * 20_000, "y"]
    grid = np.linspace(0, 1, 4)
    effects = [
        Effect(NO_FORMULA, ["a$b", "$\\c$"], *np.ones((3, 2))),
        Effect(names[1], grid, *np.ones((3, 4))),
    ]
    drawn = [
        plot.PredictionDisplay1D(grid, grid, grid, name=NO_FORMULA).plot(),
        plot.ResidualsDisplay(grid, grid, name=NO_FORMULA).plot(),
        plot.MapDisplay(grid, grid, np.ones((4, 4)), np.ones((4, 4)), names=tuple(names)).plot(),
        plot.EffectDisplay(effects, target=NO_FORMULA).plot(),
    ]
    for display in drawn:
        display.figure_.canvas.draw()
        shown = display.ax_.xaxis.label.get_text().replace(r"\$", "$")
        assert shown == r"price in US$, \x1b[31m cost in \frac$\u202e"
        plt.close(display.figure_)
    assert len(drawn[2].ax_.get_ylabel()) == 60
    assert [label.get_text() for label in drawn[3].ax_.get_xticklabels()] == [r"a\$b", r"\$\c\$"]
