"""The report shows the numbers of the Python API in matching sentences, and works in a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpexperts import DistributedGPRegressor
from gpexperts.report.content import Observed, page_data
from gpexperts.report.page import render, write_report
from gpexperts.report.sentences import alarms, headlines

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(400, 3))
Y = 50 + 10 * np.sin(2 * X[:, 0]) + 3 * X[:, 1] + RNG.standard_normal(400)
MALICE = '</script><img src="http://evil.example/x" onerror="alert(1)">'


def observed(model: DistributedGPRegressor, n: int = 200) -> Observed:
    rng = np.random.default_rng(1)
    X_test = rng.uniform(-2, 2, size=(n, 3))
    y_test = 50 + 10 * np.sin(2 * X_test[:, 0]) + 3 * X_test[:, 1] + rng.standard_normal(n)
    mean, std = model.predict(X_test, return_std=True)
    return Observed("test.csv", X_test, y_test, mean, std, 0.1)


@pytest.fixture(scope="module")
def model() -> DistributedGPRegressor:
    settings: dict[str, Any] = {"kernel": "rbf", "partition": "kmeans", "n_selected": 3, "n_neighbors": 0}
    return DistributedGPRegressor(n_experts=6, random_state=0, **settings).fit(X, Y)


@pytest.fixture(scope="module")
def beside_others() -> DistributedGPRegressor:
    """With an own expert of 16 rows beside two others; no test changes it."""
    return with_own_expert(n_selected=2)


def with_own_expert(n_selected: int) -> DistributedGPRegressor:
    settings: dict[str, Any] = {"n_experts": 4, "kernel": "rbf", "n_neighbors": 16, "random_state": 0}
    return DistributedGPRegressor(n_selected=n_selected, **settings).fit(X, Y)


@pytest.fixture(scope="module")
def page_file(model: DistributedGPRegressor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert write_report(model, path, observed=observed(model), target="heat") == path.stat().st_size
    return path


# ----------------------------------------------------------------------------------------- content


@pytest.mark.parametrize("aggregation", ["npae", "grbcm"])
def test_weighted_means_add_up_to_the_prediction(
    beside_others: DistributedGPRegressor, aggregation: str
) -> None:
    model = beside_others
    if aggregation != "npae":
        model = DistributedGPRegressor(
            n_experts=4, kernel="rbf", aggregation=aggregation, n_selected=2, random_state=0
        ).fit(X, Y)
    data = page_data(model, None, "heat")
    for q in data["queries"]:
        total = np.dot(q["weight"], q["expert_mean"]) + q["prior_weight"] * q["prior_mean"]
        if q["own"] is not None:
            total += q["own"]["weight"] * q["own"]["mean"]
        if aggregation == "grbcm":
            total += q["communication"]["weight"] * q["communication"]["mean"]
        assert q["mean"] == pytest.approx(total, rel=1e-10)


def test_a_trend_is_part_of_the_sum() -> None:
    model = DistributedGPRegressor(
        kernel="rbf", n_neighbors=16, n_selected=0, trend="linear", trend_role="mean", random_state=0
    ).fit(X[:150], Y[:150])
    for q in page_data(model, None, "heat")["queries"][:5]:
        total = q["own"]["weight"] * q["own"]["mean"] + q["prior_weight"] * q["prior_mean"] + q["trend"]
        assert q["mean"] == pytest.approx(total, rel=1e-10)
        assert [row["target"] for row in q["own"]["rows"]] == pytest.approx(
            [Y[row["row"]] for row in q["own"]["rows"]]
        )


def test_a_row_that_dominates_the_error_is_named(model: DistributedGPRegressor) -> None:
    rows = observed(model, 60)
    y = rows.y.copy()
    y[7] = 1e4
    data = page_data(model, rows._replace(y=y), "heat")
    assert data["observed"]["dominant"][0] == 8
    assert alarms(data)[0].startswith("Row 8 alone has 100 % of the squared error. Without it the RMSE is 1.")
    assert data["observed"]["regions"] == []
    assert page_data(model, rows, "heat")["observed"]["dominant"] is None


def test_dates_are_written_out() -> None:
    pd = pytest.importorskip("pandas")
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(150.0), "D")
    frame = pd.DataFrame({"when": when, "x": X[:150, 0]})
    model = DistributedGPRegressor(kernel="rbf", n_neighbors=16, n_selected=0, random_state=0)
    model.fit(frame[:100], Y[:100])
    encoded = model.model_.encoder.encoded(frame[100:])[0]
    mean, std = model.predict(frame[100:], return_std=True)
    found = page_data(model, Observed("test.csv", encoded, Y[100:150], mean, std, 0.1), "heat")["observed"]
    assert found["by_input"][0][0]["low"] == "2024-04-10 00:00"
    assert found["residuals"][0]["dates"][0][1].startswith("2024-04-19")


@pytest.mark.parametrize("n_selected", [0, 2])
def test_rows_of_the_own_expert(beside_others: DistributedGPRegressor, n_selected: int) -> None:
    model = with_own_expert(0) if n_selected == 0 else beside_others
    data = page_data(model, observed(model), "heat")
    for q in data["queries"]:
        own = q["own"]
        assert own["n_rows"] == 16
        assert len(own["rows"]) == 10
        sizes = [abs(row["weight"]) for row in own["rows"]]
        assert sizes == sorted(sizes, reverse=True)
        for row in own["rows"]:
            np.testing.assert_allclose(row["inputs"], X[row["row"]], rtol=1e-12)
            assert row["target"] == pytest.approx(Y[row["row"]], rel=1e-12)
        total = np.dot(q["weight"], q["expert_mean"]) + q["prior_weight"] * q["prior_mean"]
        assert q["mean"] == pytest.approx(total + own["weight"] * own["mean"], rel=1e-10)
    assert (data["observed"]["by_expert"] == []) == (n_selected == 0)
    sentence = headlines(data)[0]
    assert "16 training rows nearest to the query" in sentence
    assert ("A prediction uses 2 of them, and" in sentence) == (n_selected == 2)
    assert "The training rows behind this prediction" in render(data)


def test_standard_deviations_are_those_of_an_observation(beside_others: DistributedGPRegressor) -> None:
    model = beside_others
    data = page_data(model, observed(model), "heat")
    told = model.explain(observed(model).X[[data["queries"][0]["row"]]])
    variance = data["noise_std"] ** 2
    np.testing.assert_allclose(data["queries"][0]["expert_std"], np.sqrt(told.expert_std[0] ** 2 + variance))
    assert data["queries"][0]["own"]["std"] == pytest.approx(np.sqrt(told.own.std[0] ** 2 + variance))
    assert data["queries"][0]["std"] == pytest.approx(told.std[0])


def test_effects_are_those_of_the_important_inputs(model: DistributedGPRegressor) -> None:
    data = page_data(model, observed(model), "heat")
    importances = [one["name"] for one in data["importance"]]
    assert importances[:2] == ["x0", "x1"]
    assert [one["name"] for one in data["effects"]] == ["x0", "x1"]  # x2 has no effect
    assert len(importances) == 3
    assert [one["name"] for one in page_data(model, None, "heat")["effects"]][:2] == ["x0", "x1"]


def test_ten_thousand_rows_of_many_inputs_take_two_megabytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    inputs = rng.normal(size=(200, 60))
    model = DistributedGPRegressor(kernel="rbf", optimizer=None, n_neighbors=8, n_selected=0, random_state=0)
    model.fit(inputs, inputs[:, 0])
    many = rng.normal(size=(10_000, 60))
    mean, std = many[:, 1], np.ones(10_000)  # of another model: only the size of the page counts
    rows = Observed("test.csv", many, many[:, 0], mean, std, 0.1)
    data = page_data(model, rows, "heat")
    assert len(data["neighbour_features"]) == 12
    assert len(data["queries"][0]["own"]["rows"][0]["inputs"]) == 12
    assert len(render(data).encode()) < 2_000_000


def test_counts_add_up(model: DistributedGPRegressor) -> None:
    data = page_data(model, observed(model), "heat")
    for bins in data["observed"]["by_input"]:
        assert sum(b["n"] for b in bins) == 200
        assert all(b["low"] <= b["high"] for b in bins)
    assert sum(b["n"] for b in data["observed"]["by_expert"]) == 200
    assert sum(data["experts"]["count"]) == 200 * 3
    rmse = data["observed"]["scores"]["rmse"]
    squares = sum(b["n"] * b["rmse"] ** 2 for b in data["observed"]["by_expert"])
    assert squares == pytest.approx(200 * rmse**2)


def test_sentences_agree_with_the_numbers(model: DistributedGPRegressor) -> None:
    data = page_data(model, observed(model), "heat")
    fitted, accuracy, coverage = headlines(data)
    assert fitted.startswith("The model predicts heat. It was fitted to 400 rows by 6 experts of")
    assert fitted.endswith("A prediction uses 3 of them.")
    explained = float(re.search(r"explains ([\d.]+) % of the variance of heat", accuracy)[1])
    assert explained == pytest.approx(100 * (1 - data["observed"]["scores"]["smse"]), abs=0.05)
    assert coverage.endswith("as nominal, up to sampling error.")
    scores = data["observed"]["scores"]
    assert "The 50 %, 80 % and 95 % intervals cover" in coverage
    curve = data["observed"]["calibration"]
    nominal = dict(zip(curve["level"], curve["share"], strict=True))
    for shares, words in (
        ({0.95: 0.8}, "overconfident"),
        ({0.5: 0.9, 0.8: 0.95, 0.95: 1.0}, "underconfident"),
        ({0.5: 0.9, 0.95: 0.8}, "heavy tails"),
        ({0.5: 0.2, 0.95: 1.0}, "narrow intervals cover too little"),
    ):
        changed = {**nominal, **{level: level for level in (0.5, 0.8, 0.95)}, **shares}
        curve["share"] = [changed[level] for level in curve["level"]]
        assert words in headlines(data)[2]
    assert alarms(data) == []
    curve["share"] = [0.5 if level == 0.95 else nominal[level] for level in curve["level"]]
    assert "do not rely on them" in alarms(data)[0]
    scores["smse"] = 1.2
    assert "no better than predicting their mean" in headlines(data)[1]
    assert "explains almost nothing" in alarms(data)[0]
    scores["smse"] = None
    assert "all have the same heat" in headlines(data)[1]
    data["observed"] = None
    assert "No test data were given" in headlines(data)[1]


def test_the_model_is_compared_with_simple_predictors(model: DistributedGPRegressor) -> None:
    seen = observed(model)
    ours, linear, trivial = page_data(model, seen, "heat")["observed"]["compared"]
    assert ours["rmse"] == pytest.approx(np.sqrt(np.mean((seen.y - seen.mean) ** 2)))
    assert trivial["rmse"] == pytest.approx(np.sqrt(np.mean((seen.y - Y.mean()) ** 2)))
    least, *_ = np.linalg.lstsq(np.c_[X, np.ones(400)], Y, rcond=None)
    predicted = np.c_[seen.X, np.ones(200)] @ least
    assert linear["rmse"] == pytest.approx(np.sqrt(np.mean((seen.y - predicted) ** 2)), rel=1e-4)


def test_a_region_of_large_errors_is_found(model: DistributedGPRegressor) -> None:
    seen = observed(model)
    wrong = seen.X[:, 1] > 1.2
    seen = seen._replace(y=np.where(wrong, seen.y + 20, seen.y))
    data = page_data(model, seen, "heat")["observed"]
    (first, *_) = data["regions"]
    assert re.search(r"x1 > 1\.[12]", first["where"])
    assert first["rmse"] == pytest.approx(20, rel=0.1)
    z = np.abs(seen.y - seen.mean) / seen.std
    assert [row["row"] for row in data["worst"]] == np.argsort(-z, kind="stable")[:40].tolist()
    assert len(data["listed"]["number"]) == 200


def test_what_matters(model: DistributedGPRegressor) -> None:
    data = page_data(model, observed(model), "heat")
    assert [one["name"] for one in data["importance"]] == ["x0", "x1", "x2"]
    assert abs(data["importance"][2]["increase"]) < 0.2
    assert {one["name"] for one in data["effects"]} == {"x0", "x1"}  # x2 has no influence


def test_conspicuous_data_are_named() -> None:
    inputs = np.c_[X[:60, :1], np.ones(60)]
    inputs[1] = inputs[0]
    y = Y[:60].copy()
    y[5] = 1e6
    model = DistributedGPRegressor(n_experts=1, kernel="rbf", optimizer=None).fit(inputs, y)
    constant, repeated, outlier = page_data(model, None, "heat")["findings"]
    assert constant == "x1: constant in the training rows, without effect."
    assert repeated.startswith("1 training rows repeat")
    assert outlier.startswith("1 training target is more than 8 robust")


def test_one_expert_and_constant_inputs() -> None:
    inputs = np.c_[X[:50, :1], np.ones(50)]
    model = DistributedGPRegressor(n_experts=1, kernel="rbf", optimizer=None).fit(inputs, Y[:50])
    data = page_data(model, None, "heat")
    assert "the exact Gaussian process" in headlines(data)[0]
    json.dumps(data, allow_nan=False)


def test_several_targets_are_refused(tmp_path: Path) -> None:
    model = DistributedGPRegressor(n_experts=1, optimizer=None).fit(X, np.c_[Y, Y])
    with pytest.raises(ValueError, match="The report is for models of one target"):
        write_report(model, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_the_page_has_no_external_addresses(page_file: Path) -> None:
    page = page_file.read_text()
    without_namespace = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|//cdn|@import|url\(", without_namespace)


def test_the_policy_allows_the_text_of_this_page_only(page_file: Path) -> None:
    page = page_file.read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "unsafe" not in policy
    for element in ("style", "script"):
        (text,) = re.findall(rf"<{element}>(.*?)</{element}>", page, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}';" in policy


# ----------------------------------------------------------------------------------------- browser


class Opened:
    """An open page, with its console messages, dialogs and requests."""

    def __init__(self, browser: Any, path: Path, width: int = 1200) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900})
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda m: self.messages.append(m.text))
        self.page.on("pageerror", lambda e: self.messages.append(str(e)))
        self.page.on("dialog", lambda d: self.messages.append(d.message))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.goto(path.as_uri())

    def numbers(self, selector: str) -> list[float]:
        return [float(e.get_attribute("data-value")) for e in self.page.query_selector_all(selector)]


@pytest.fixture
def opened(browser: Any, page_file: Path):
    opened = Opened(browser, page_file)
    yield opened
    opened.page.close()


def assert_explains(opened: Opened, model: DistributedGPRegressor, X_test: np.ndarray) -> None:
    """The page shows the result of `explain` for the query whose inputs it shows."""
    query = np.array(opened.numbers("#inputs dd"))[None]
    assert (X_test == query).all(axis=1).any()
    explained = model.explain(query)
    np.testing.assert_allclose(opened.numbers("#mean"), explained.mean, rtol=1e-9)
    np.testing.assert_allclose(opened.numbers("#total"), explained.mean, rtol=1e-9)
    rows = [
        r.inner_text().split("\t")[0].strip()
        for r in opened.page.query_selector_all("#contributions tbody tr")
    ]
    assert rows == [f"expert {e}" for e in explained.experts[0]] + ["prior mean"]
    mean = opened.numbers("#contributions tbody td:nth-child(2)")
    weight = opened.numbers("#contributions tbody td:nth-child(4)")
    np.testing.assert_allclose(mean, [*explained.expert_mean[0], explained.prior_mean], rtol=1e-9)
    np.testing.assert_allclose(
        weight, [*explained.weight[0], explained.prior_weight[0]], rtol=1e-6, atol=1e-9
    )


def test_it_loads_without_messages_or_requests(opened: Opened, page_file: Path) -> None:
    assert opened.messages == []
    assert opened.requests == [page_file.as_uri()]
    for figure in (
        "experts-figure", "predicted-observed", "calibration", "by-input", "by-expert",
        "map", "relevance", "trace", "importance", "residuals", "effect-0",
    ):  # fmt: skip
        box = opened.page.query_selector(f"#{figure}").bounding_box()
        assert box["width"] > 200
        assert box["height"] > 20
        assert opened.page.evaluate(f"document.querySelectorAll('#{figure} *').length") > 5
        text = opened.page.query_selector(f"#{figure}").text_content()
        assert "NaN" not in text
        assert "undefined" not in text


def test_a_selected_query_shows_its_explanation(opened: Opened, model: DistributedGPRegressor) -> None:
    X_test = observed(model).X
    means = []
    for i in (0, 17, 60):
        opened.page.select_option("#query", str(i))
        assert_explains(opened, model, X_test)
        means += opened.numbers("#mean")
    assert len(set(means)) == 3


def test_keys_buttons_and_points_select_queries(opened: Opened, model: DistributedGPRegressor) -> None:
    X_test, page = observed(model).X, opened.page
    chosen = lambda: page.eval_on_selector("#query", "e => Number(e.value)")  # noqa: E731
    page.keyboard.press("ArrowRight")
    assert chosen() == 1
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert chosen() == 119  # the last one
    page.keyboard.press("Tab")
    for _ in range(6):
        if page.evaluate("document.activeElement.id") == "next":
            break
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "next"
    page.keyboard.press("Enter")
    assert chosen() == 0
    assert_explains(opened, model, X_test)
    point = page.query_selector_all("#predicted-observed .selectable")[30]
    row = int(point.get_attribute("data-row"))
    point.dispatch_event("click")
    np.testing.assert_array_equal(opened.numbers("#inputs dd"), X_test[row])
    assert_explains(opened, model, X_test)
    assert [
        e.get_attribute("data-row") for e in page.query_selector_all("#predicted-observed .selected")
    ] == [str(row)]


def test_search_by_row_number(opened: Opened, model: DistributedGPRegressor) -> None:
    data = json.loads(opened.page.text_content("#data"))
    explained = {q["number"] for q in data["queries"]}
    other = next(n for n in range(1, 201) if n not in explained)
    opened.page.fill("#search", str(data["queries"][7]["number"]))
    assert opened.page.input_value("#query") == "7"
    opened.page.fill("#search", str(other))
    assert opened.page.inner_text("#prediction").startswith(f"Row {other}: the prediction is")
    opened.page.fill("#search", "4000")
    assert "There is no row 4000" in opened.page.inner_text("#prediction")
    opened.page.click("summary:has-text('largest errors')")
    opened.page.click("#worst button >> nth=3")
    assert opened.page.input_value("#query") == "3"
    assert opened.messages == []


def test_tooltip_of_an_expert(opened: Opened) -> None:
    opened.page.hover("#map circle >> nth=0")
    assert re.match(r"expert \d+\n\d+ rows\nselected for [\d.]+ %", opened.page.inner_text("#tip"))


def test_errors_by_another_input(opened: Opened) -> None:
    before = opened.page.inner_html("#by-input")
    opened.page.select_option("#input", "1")
    assert opened.page.inner_html("#by-input") != before


def test_it_fits_a_phone_and_prints(browser: Any, page_file: Path) -> None:
    opened = Opened(browser, page_file, width=380)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 380
    opened.page.emulate_media(media="print")
    assert not opened.page.is_visible("#next")
    assert opened.page.is_visible("#contributions")
    assert len(opened.page.pdf()) > 10_000
    opened.page.close()


def test_names_cannot_become_markup(browser: Any, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:60], columns=[MALICE, "{{ 7 * 7 }}", "plain"])
    model = DistributedGPRegressor(n_experts=2, kernel="rbf", optimizer=None, random_state=0).fit(
        frame, Y[:60]
    )
    (tmp_path / "report.html").write_text(render(page_data(model, None, MALICE)), encoding="utf-8")
    opened = Opened(browser, tmp_path / "report.html")
    assert opened.messages == []
    assert len(opened.requests) == 1
    assert opened.page.inner_text("h1") == MALICE
    assert opened.page.inner_text("#inputs dt >> nth=0") == MALICE
    assert opened.page.inner_text("#inputs dt >> nth=1") == "{{ 7 * 7 }}"
    opened.page.close()
