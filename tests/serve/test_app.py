"""The service predicts what the library predicts, in both formats, and refuses everything else clearly."""

from __future__ import annotations

import asyncio
import io
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from gpexperts import DistributedGPRegressor
from gpexperts.exceptions import ColumnWarning
from gpexperts.serve import Limits, create_app
from gpexperts.serve.bodies import ARROW
from tests.serve.conftest import ROW


def library(model: Any, rows: list[dict[str, Any]], level: float) -> list[dict[str, float]]:
    """What the library predicts for a data frame."""
    frame = pd.DataFrame(rows)[["area", "new", "</script>", "sold"]]
    frame["sold"] = pd.to_datetime(frame["sold"])
    mean, std = model.predict(frame, return_std=True)
    lower, upper = model.predict_interval(frame, level)
    columns = {"mean": mean, "std": std, "lower": lower, "upper": upper}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


SOLD = datetime(2024, 3, 1, 12)
TABLE = pa.table({"area": [1.0], "new": [True], "</script>": ["north"], "sold": [SOLD]})


def stream(table: pa.Table, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def post_arrow(client: TestClient, content: bytes, path: str = "/predict") -> Any:
    return client.post(path, content=content, headers={"content-type": ARROW})


# --------------------------------------------------------------------------------------- predictions


def test_json_predictions_are_those_of_the_library(client: TestClient, model: Any) -> None:
    answer = client.post("/predict?level=0.8", json={"rows": [ROW, {**ROW, "area": 50, "id": 7}]})
    assert answer.status_code == 200
    body = answer.json()
    assert (body["target"], body["level"]) == ("price", 0.8)
    for found, expected in zip(
        body["predictions"], library(model, [ROW, {**ROW, "area": 50}], 0.8), strict=True
    ):
        assert found == pytest.approx(expected, rel=1e-9)


def test_gaps_and_unseen_levels_are_predicted(client: TestClient, model: Any) -> None:
    rows = [{**ROW, "area": None}, {**ROW, "</script>": "east"}]
    found = client.post("/predict", json={"rows": rows}).json()["predictions"]
    with pytest.warns(ColumnWarning):
        expected = library(model, rows, 0.95)
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-9)
    told = client.post("/explain", json={"rows": rows}).json()["explanations"]
    assert [one["outside"] for one in told] == [[], ["</script>"]]


def test_intervals_of_a_transformed_target() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 1))
    y = np.exp(X[:, 0] + 0.1 * rng.standard_normal(80))
    skewed = DistributedGPRegressor(target_transform="log", kernel="rbf", optimizer=None).fit(X, y)
    with TestClient(create_app(skewed)) as client:
        (found,) = client.post("/predict", json={"rows": [{"x0": 0.5}]}).json()["predictions"]
    lower, upper = skewed.predict_interval([[0.5]])
    assert (found["lower"], found["upper"]) == pytest.approx((lower[0], upper[0]))
    assert upper[0] - found["mean"] > found["mean"] - lower[0]


def test_arrow_predictions_equal_json_ones(client: TestClient) -> None:
    table = pa.table({"</script>": ["north"], "id": [1], "new": [True], "area": [100], "sold": [SOLD]})
    answer = post_arrow(client, stream(table))
    assert answer.headers["content-type"] == ARROW
    (found,) = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert found == pytest.approx(client.post("/predict", json={"rows": [ROW]}).json()["predictions"][0])


def test_an_empty_table_has_no_predictions(client: TestClient) -> None:
    empty = TABLE.slice(0, 0)
    assert pa.ipc.open_stream(post_arrow(client, stream(empty)).content).read_all().num_rows == 0


def test_explanations_add_up_to_the_prediction(client: TestClient) -> None:
    body = client.post("/explain", json={"rows": [ROW, {**ROW, "area": 500}]}).json()
    near, far = body["explanations"]
    assert body["inputs"] == ["area", "new", "</script>", "sold"]
    total = sum(one["weight"] * one["mean"] for one in near["experts"])
    assert near["mean"] == pytest.approx(total, rel=1e-9)
    prediction = client.post("/predict", json={"rows": [ROW]}).json()["predictions"][0]
    assert {key: near[key] for key in prediction} == pytest.approx(prediction)
    assert (near["outside"], far["outside"]) == ([], ["area"])
    assert len(near["rows"]) == 10
    sizes = [abs(row["weight"]) for row in near["rows"]]
    assert sizes == sorted(sizes, reverse=True)


def test_training_rows_are_shown_as_they_were(client: TestClient, model: Any) -> None:
    (one,) = client.post("/explain", json={"rows": [ROW]}).json()["explanations"]
    for row in one["rows"]:
        area, new, town, _ = row["inputs"]
        assert isinstance(new, bool)
        assert town in ("north", "south")
        assert row["target"] == pytest.approx(area + 20 * new + 30 * (town == "north"), abs=5)


def test_models_without_own_experts_show_the_nearest_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 2))
    exact = DistributedGPRegressor(n_experts=1, n_neighbors=0, kernel="rbf", optimizer=None).fit(X, X[:, 0])
    with TestClient(create_app(exact, target="heat")) as client:
        body = client.post("/explain", json={"rows": [{"x0": 0.5, "x1": 0.5}]}).json()
    assert body["target"] == "heat"
    rows = body["explanations"][0]["rows"]
    scaled = (X - 0.5) / exact.kernel_.k1.k2.length_scale
    assert rows[0]["row"] == 1 + np.argmin((scaled**2).sum(axis=1))
    assert rows[0]["weight"] is None
    assert rows[0]["inputs"] == pytest.approx(X[rows[0]["row"] - 1])


def test_concurrent_requests_are_batched_and_get_their_own_answers(model: Any) -> None:
    areas = np.linspace(40, 190, 60)
    with TestClient(create_app(model)) as client, ThreadPoolExecutor(12) as pool:
        rows = [{**ROW, "area": area} for area in areas.tolist()]
        answers = list(pool.map(lambda row: client.post("/predict", json={"rows": [row]}).json(), rows))
        metrics = client.get("/metrics").text
    expected = [one["mean"] for one in library(model, rows, 0.95)]
    assert [a["predictions"][0]["mean"] for a in answers] == pytest.approx(expected, rel=1e-9)
    assert "gpexperts_batch_rows_sum 60.0" in metrics
    assert 'gpexperts_requests_total{path="/predict",status="200"} 60.0' in metrics


def test_long_requests_are_predicted_in_pieces(client: TestClient) -> None:
    rows = [{**ROW, "area": float(area)} for area in np.linspace(30, 200, 600)]
    together = client.post("/predict", json={"rows": rows}).json()["predictions"]
    (alone,) = client.post("/predict", json={"rows": rows[-1:]}).json()["predictions"]
    assert len(together) == 600
    assert together[-1] == pytest.approx(alone, rel=1e-9)


# -------------------------------------------------------------------------------------------- errors

BAD = {
    "no JSON": (b"{", 400, "not JSON"),
    "NaN": (b'{"rows": [{"area": NaN}]}', 400, "NaN is not a number that JSON has"),
    "nested": (b"[" * 100_000, 400, "not JSON"),
    "not UTF-8": (b'{"\xff": 1}', 400, "not JSON"),
    "a list": (b"[]", 422, "one object per row"),
    "no rows": (b'{"rows": []}', 422, "at least one row"),
    "a number": (b'{"rows": [1]}', 422, "rows[0] is 1; expected an object"),
    "missing": (b'{"rows": [{"new": true}]}', 422, "no value for 'area'. The inputs are area, new"),
    "text": (b'{"rows": [{"area": "x"}]}', 422, "rows[0].area is 'x'; expected a number"),
    "no values": (
        b'{"rows": [{"area": null, "new": null, "</script>": null, "sold": null}]}', 422,
        "rows[0] has no values",
    ),
    "no date": (
        b'{"rows": [{"area": 1, "new": true, "</script>": "a", "sold": "May"}]}', 422,
        "rows[0].sold is 'May'; expected a date such as 2024-12-31T23:59:00.",
    ),
    "a zone": (
        b'{"rows": [{"area": 1, "new": true, "</script>": "a", "sold": "2024-01-01T00:00:00Z"}]}', 422,
        "expected a date such as 2024-12-31T23:59:00.",
    ),
    "true": (b'{"rows": [{"area": true}]}', 422, "rows[0].area is true; expected a number"),
    "huge": (b'{"rows": [{"area": 1e301}]}', 422, "rows[0].area is 1e+301; expected at most 1e+300"),
    "infinite": (b'{"rows": [{"area": 1e999}]}', 422, "rows[0].area is inf"),
    "digits": (b'{"rows": [{"area": 1' + b"0" * 400 + b"}]}", 422, "expected at most 1e+300"),
    "one": (b'{"rows": [{"area": 1, "new": 1}]}', 422, "rows[0].new is 1; expected true or false"),
    "level": (
        b'{"rows": [{"area": 1, "new": true, "</script>": 3}]}', 422,
        "rows[0].</script> is 3; expected text.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_json_is_refused_with_its_reason(name: str, client: TestClient) -> None:
    content, status, message = BAD[name]
    answer = client.post("/predict", content=content, headers={"content-type": "application/json"})
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status)
    assert message in problem["detail"]


def test_bad_tables_are_refused_with_their_reason(client: TestClient) -> None:
    good = TABLE
    for content, status, message in (
        (b"no arrow", 400, "not an Arrow stream"),
        (stream(good)[:-60], 400, "not an Arrow stream"),
        (stream(good.drop_columns("area")), 422, "has no column area"),
        (stream(pa.table({})), 422, "has no column area"),
        (stream(pa.table([*good.columns, good["area"]], [*good.column_names, "area"])), 422, "same name"),
        (stream(good.set_column(0, "area", pa.array(["x"]))), 422, "area"),
        (stream(good.set_column(0, "area", pa.array([1e301]))), 422, "beyond 1e+300"),
        (stream(good.set_column(0, "area", pa.array([float("inf")]))), 422, "infinity"),
    ):
        answer = post_arrow(client, content)
        assert (answer.status_code, message in answer.json()["detail"]) == (status, True), answer.text


def test_other_requests_are_refused(client: TestClient) -> None:
    rows = {"rows": [ROW]}
    assert client.post("/predict", data={"a": 1}).status_code == 415
    assert post_arrow(client, b"", "/explain").status_code == 415
    assert client.get("/predict").status_code == 405
    assert client.get("/nothing").json()["detail"].startswith("GET /nothing is not part of this service")
    for level in ("0", "1", "x", "nan", "0.5&level=0.6"):
        answer = client.post(f"/predict?level={level}", json=rows)
        assert answer.status_code == 422
        assert "between 0 and 1" in answer.json()["detail"]


def test_limits(model: Any) -> None:
    limits = Limits(body_bytes=2000, rows=3, explained_rows=2, waiting_rows=2)
    with TestClient(create_app(model, limits=limits)) as client:
        assert client.post("/predict", json={"rows": [ROW] * 2}).status_code == 200
        busy = client.post("/predict", json={"rows": [ROW] * 3})
        assert (busy.status_code, busy.headers["retry-after"]) == (429, "1")
        assert "more than 3 rows" in client.post("/predict", json={"rows": [ROW] * 4}).json()["detail"]
        assert client.post("/explain", json={"rows": [ROW] * 3}).status_code == 413
        assert post_arrow(client, stream(pa.concat_tables([TABLE] * 4))).status_code == 413
        bomb = stream(pa.table({"area": ["x" * 30_000]}), compression="zstd")
        assert len(bomb) < 1000
        unpacked = post_arrow(client, bomb)
        assert (unpacked.status_code, "20,000 bytes" in unpacked.json()["detail"]) == (413, True)
        long = json.dumps({"rows": [ROW], "more": "x" * 3000}).encode()
        kind = {"content-type": "application/json"}
        assert client.post("/predict", content=long, headers=kind).status_code == 413
        in_pieces = client.post("/predict", content=iter([long[:1500], long[1500:]]), headers=kind)
        assert (in_pieces.status_code, "2,000 bytes" in in_pieces.json()["detail"]) == (413, True)


def test_a_request_that_does_not_arrive_is_ended(model: Any) -> None:
    app = create_app(model, limits=Limits(body_seconds=0.1))
    kind = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/predict", "query_string": b"", "headers": kind}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()  # for ever
        return {}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 408
    assert "did not arrive within 0.1 s" in sent[1]["body"].decode()


def test_only_known_hosts_on_loopback(model: Any) -> None:
    with TestClient(create_app(model, hosts=("localhost",))) as client:
        assert client.get("/health", headers={"host": "localhost:8000"}).json() == {"status": "ok"}
        for malformed in ("[", "evil.example:localhost", "localhost@evil.example"):
            assert client.get("/health", headers={"host": malformed}).status_code == 400
        refused = client.get("/", headers={"host": "evil.example"})
        assert (refused.status_code, "evil.example" in refused.json()["detail"]) == (400, True)


def test_conformal_models_name_levels_that_need_more_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 1))
    settings = {"kernel": "rbf", "optimizer": None, "random_state": 0}
    model = DistributedGPRegressor(calibrate="conformal", **settings).fit(X, X[:, 0])
    with TestClient(create_app(model)) as client:
        answer = client.post("/predict?level=0.999", json={"rows": [{"x0": 0.5}]})
    assert (answer.status_code, "held" in answer.json()["detail"]) == (422, True)


def test_an_unexpected_error_is_a_500_and_the_service_goes_on(model: Any, monkeypatch) -> None:
    with TestClient(create_app(model), raise_server_exceptions=False) as client:
        with monkeypatch.context() as patch:
            patch.setattr(model.predictor_, "predict", lambda *_, **__: 1 / 0)
            failed = client.post("/predict", json={"rows": [ROW]})
        assert (failed.status_code, "ZeroDivisionError" in failed.json()["detail"]) == (500, True)
        assert client.post("/predict", json={"rows": [ROW]}).status_code == 200
        assert 'status="500"' in client.get("/metrics").text


def test_several_targets_are_refused() -> None:
    X = np.random.default_rng(0).uniform(size=(30, 1))
    model = DistributedGPRegressor(n_experts=1, optimizer=None).fit(X, np.c_[X, X])
    with pytest.raises(ValueError, match="The service is for models of one target"):
        create_app(model)
