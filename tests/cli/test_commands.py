"""Every command does what it says, and every error ends with code 2 and one paragraph."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import gpexperts
from gpexperts import DistributedGPRegressor
from gpexperts.metrics import crps, smse

# A length scale at its bound is news to the user, not a failure of the command.
pytestmark = pytest.mark.filterwarnings("default::gpexperts.exceptions.GpexpertsWarning")

FIT = ("fit", "houses.csv", "--target", "price", "-o", "new.gpx", "--n-experts", "2", "--optimizer", "none")


# -------------------------------------------------------------------------------------------- fit


def test_fit_remembers_the_table_and_the_settings(run) -> None:
    model = gpexperts.load("houses.gpx")
    assert model.table_.target == "price"
    assert model.table_.feature_names == ["area", "rooms", "town=north", "town=south", "town=west"]
    assert list(model.feature_names_in_) == model.table_.feature_names
    assert model.table_.config == {"random_state": 0, "n_experts": 3, "kernel": "rbf"}
    assert model.table_.n_rows == 300


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.zst", "parquet", "feather", "arrow"])
def test_every_format_gives_the_same_model_and_the_same_predictions(run, ending: str) -> None:
    write_as(pacsv.read_csv("houses.csv"), f"table.{ending}")
    write_as(pacsv.read_csv("new_houses.csv"), f"queries.{ending}")
    args = ("-t", "price", "--drop", "id", "--one-hot", "town", "--n-experts", "3", "--kernel", "rbf", "-q")
    assert run("fit", f"table.{ending}", *args, "-o", "same.gpx").code == 0
    assert gpexperts.load("same.gpx").table_.sha256 == gpexperts.load("houses.gpx").table_.sha256
    assert run("predict", "same.gpx", f"queries.{ending}", "--keep", "id", "-o", f"out.{ending}").code == 0
    out = read_as(f"out.{ending}")
    assert out.column_names == ["id", "mean", "std", "lower", "upper"]
    model = gpexperts.load("houses.gpx")
    mean, std = direct(model, pacsv.read_csv("new_houses.csv"))
    np.testing.assert_array_equal(out["mean"].to_numpy(), mean)
    np.testing.assert_array_equal(out["std"].to_numpy(), std)
    assert out["id"].to_pylist() == [f"h{i}" for i in range(20)]


def write_as(table: pa.Table, path: str) -> None:
    if path.endswith("parquet"):
        pq.write_table(table, path)
    elif path.endswith("feather"):
        feather.write_feather(table, path)
    elif path.endswith("arrow"):  # the streaming format, which is called .arrow too
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    else:
        with pa.output_stream(path, compression="detect") as file:
            pacsv.write_csv(table, file)


def read_as(path: str) -> pa.Table:
    if path.endswith("parquet"):
        return pq.read_table(path)
    if path.endswith(("feather", "arrow")):
        return feather.read_table(path)
    with pa.input_stream(path, compression="detect") as file:
        return pacsv.read_csv(file)


def inputs(table: pa.Table) -> np.ndarray:
    """The rows of a houses table as the model sees them."""
    town = np.array(table["town"].to_pylist())
    columns = [table["area"], table["rooms"], *(town == name for name in ("north", "south", "west"))]
    return np.column_stack([np.asarray(c, dtype=float) for c in columns])


def direct(model: DistributedGPRegressor, table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """What Python predicts for the rows of a houses table."""
    del model.feature_names_in_
    return model.predict(inputs(table), return_std=True)


def test_features_and_config_and_options(run) -> None:
    Path("config.toml").write_text(
        'n_experts = 4\nn_selected = 2\noptimizer = "none"\n[selection]\nname = "knn"\nmetric = "manhattan"\n'
    )
    args = (
        "--features",
        "area,rooms",
        "--config",
        "config.toml",
        "--n-selected",
        "0.5",
        "--aggregation",
        "rbcm",
    )
    ended = run("fit", "houses.csv", "-t", "price", "-o", "new.gpx", *args)
    assert ended.code == 0
    assert re.search(r"new\.gpx, [\d.]+ kB: 300 rows, 2 inputs, 4 experts", ended.err)
    model = gpexperts.load("new.gpx")
    assert (model.n_experts_, model.n_selected, model.aggregation) == (4, 0.5, "rbcm")
    assert model.selection.metric == "manhattan"
    assert model.optimizer is None
    assert model.table_.config["selection"] == {"name": "knn", "metric": "manhattan"}


def test_every_parameter_of_the_estimator_is_an_option(run) -> None:
    out = run("fit", "--help").out
    for name in DistributedGPRegressor().get_params():
        # -v is verbose; rows that the command reads are in one process, so that they have been pooled.
        if name not in ("verbose", "share_inputs"):
            assert f"--{name.replace('_', '-')}" in out


@pytest.mark.parametrize(
    ("option", "parameter"),
    [
        (("--n-experts", "3"), {"n_experts": 3}),
        (("--expert-size", "50"), {"expert_size": 50}),
        (("--partition", "kmeans"), {"partition": "kmeans"}),
        (("--kernel", "matern32"), {"kernel": "matern32"}),
        (("--optimizer", "none"), {"optimizer": None}),
        (("--n-restarts", "2"), {"n_restarts": 2}),
        (("--training", "full"), {"training": "full"}),
        (("--selection", "dnn"), {"selection": "dnn"}),
        (("--n-selected", "0.25"), {"n_selected": 0.25}),
        (("--aggregation", "rbcm"), {"aggregation": "rbcm"}),
        (("--calibrate", "conformal"), {"calibrate": "conformal"}),
        (("--no-standardize",), {"standardize": False}),
        (("--memory-budget", "2GiB"), {"memory_budget": "2GiB"}),
        (("--engine", "dask"), {"engine": "dask"}),
        (("--engine", "dask", "--scheduler", "tcp://host:1"), {"engine": "tcp://host:1"}),
        (("--checkpoint", "theta.json"), {"checkpoint": "theta.json"}),
        (("--n-jobs", "2"), {"n_jobs": 2}),
        (("--random-state", "7"), {"random_state": 7}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_option_sets_its_parameter_and_no_other(run, monkeypatch, option, parameter) -> None:
    asked = []

    def fit(model: DistributedGPRegressor, X: np.ndarray, y: np.ndarray) -> None:
        asked.append(model.get_params(deep=False))
        raise ValueError("seen")

    monkeypatch.setattr(DistributedGPRegressor, "fit", fit)
    ended = run("fit", "houses.csv", "-t", "price", "--drop", "id,town", "-o", "new.gpx", *option)
    assert "seen" in ended.err
    assert asked == [DistributedGPRegressor().get_params(deep=False) | {"random_state": 0} | parameter]


def test_a_model_that_cannot_be_written_is_refused_before_the_table_is_read(run) -> None:
    ended = run("fit", "no_such_table.csv", "-t", "price", "-o", "no_such_folder/new.gpx")
    assert ended.code == 2
    assert "no_such_folder" in ended.err
    assert "no_such_table" not in ended.err


def test_factors_are_saved_where_asked(run) -> None:
    args = (*FIT, "--drop", "id,town", "-q")
    assert run(*args).code == 0
    without = Path("new.gpx").stat().st_size
    assert run(*args, "--include-factors").code == 0
    assert Path("new.gpx").stat().st_size > without + 8 * 2 * 150 * 151 / 2
    assert run("predict", "new.gpx", "new_houses.csv", "-o", "out.csv").code == 0


def test_names_in_a_list_may_have_spaces_around_them(run) -> None:
    assert run(*FIT, "--drop", "id", "--one-hot", "town, rooms").code == 0
    kinds = {c.name: c.kind for c in gpexperts.load("new.gpx").table_.columns}
    assert kinds["town"] == kinds["rooms"] != kinds["area"]


def test_missing_values_are_counted_or_dropped(run) -> None:
    rows = Path("houses.csv").read_text().splitlines()
    rows[3] = "h2,,3,north,200.0"
    rows[5] = "h4,50.0,NA,,210.0"
    rows[9] = "h8,50.0,2,south,nan"
    Path("houses.csv").write_text("\n".join(rows))
    ended = run(*FIT, "--drop", "id", "--one-hot", "auto")
    assert ended.code == 2
    assert "area: 1, rooms: 1, town: 1, price: 1; of 300 rows" in ended.err
    assert "--drop-missing" in ended.err
    ended = run(*FIT, "--drop", "id", "--one-hot", "auto", "--drop-missing")
    assert ended.code == 0
    assert "297 rows (3 with missing values left out)" in ended.err
    ended = run("evaluate", "houses.gpx", "houses.csv")
    assert ended.code == 2
    assert "area: 1, rooms: 1, town: 1, price: 1; of 300 rows" in ended.err
    ended = run("evaluate", "houses.gpx", "houses.csv", "--drop-missing", "--json")
    assert json.loads(ended.out)["n"] == 297


def test_booleans_and_whole_numbers_are_numbers(run) -> None:
    table = pacsv.read_csv("houses.csv").drop(["id", "town"])
    table = table.append_column("garden", pa.array(np.arange(300) % 2 == 0))
    pacsv.write_csv(table, "garden.csv")
    assert run("fit", "garden.csv", *FIT[2:]).code == 0
    assert [c.kind for c in gpexperts.load("new.gpx").table_.columns] == ["number", "number", "boolean"]
    assert run("predict", "new.gpx", "garden.csv", "-o", "out.csv").code == 0


# ---------------------------------------------------------------------------------------- predict


def test_columns_in_any_order_and_streams(run) -> None:
    table = pacsv.read_csv("new_houses.csv")
    text = "\n".join(
        ["town,extra,rooms,area"] + [f"{r['town']},NA,{r['rooms']},{r['area']}" for r in table.to_pylist()]
    )
    ended = run("predict", "houses.gpx", "-", "-o", "-", "--keep", "extra,town", "--level", "0.5", stdin=text)
    assert ended.code == 0
    assert ended.err == ""
    lines = ended.out.splitlines()
    assert lines[0] == '"extra","town","mean","std","lower","upper"'
    mean, std = direct(gpexperts.load("houses.gpx"), table)
    first = lines[1].split(",")
    assert first[0] == '"NA"'  # a key is passed on as it is
    assert float(first[2]) == mean[0]
    assert float(first[4]) == pytest.approx(mean[0] - 0.6744897501960817 * std[0])


def test_explain_names_the_experts_and_their_weights(run) -> None:
    for out in ("out.parquet", "out.csv"):
        assert run("predict", "houses.gpx", "new_houses.csv", "--explain", "-o", out).code == 0
    out = pq.read_table("out.parquet")
    model = gpexperts.load("houses.gpx")
    del model.feature_names_in_
    told = model.explain(inputs(pacsv.read_csv("new_houses.csv")))
    asked = told.experts >= 0
    weights, experts = out["weights"].to_pylist(), out["experts"].to_pylist()
    assert len(experts) == 20
    assert experts == [list(row[who]) for row, who in zip(told.experts, asked, strict=True)]
    assert weights == [list(row[who]) for row, who in zip(told.weight, asked, strict=True)]
    text = pacsv.read_csv("out.csv")["weights"].to_pylist()
    assert [[float(word) for word in str(row).split()] for row in text] == weights


def test_a_table_without_rows_gives_one_without_rows(run) -> None:
    for name in ("none.csv", "none.parquet"):
        write_as(pacsv.read_csv("new_houses.csv").slice(0, 0), name)
        assert run("predict", "houses.gpx", name, "-o", "out.parquet", "--keep", "id").code == 0
        assert pq.read_table("out.parquet").num_rows == 0
    assert "no complete rows" in run("evaluate", "houses.gpx", "none.csv", "--target", "rooms").err


# ------------------------------------------------------------------------------ evaluate and info


def test_evaluate_gives_the_scores_of_the_metrics(run) -> None:
    ended = run("evaluate", "houses.gpx", "test_houses.csv", "--json")
    scores = json.loads(ended.out)
    table = pacsv.read_csv("test_houses.csv")
    mean, std = direct(gpexperts.load("houses.gpx"), table)
    y = table["price"].to_numpy()
    assert scores["smse"] == smse(y, mean)
    assert scores["crps"] == crps(y, mean, std)
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))
    assert list(scores["coverage"]) == ["0.5", "0.9", "0.95", "0.99"]
    assert 0.5 < scores["coverage"]["0.9"] <= 1
    assert scores["seconds_per_query"] > 0
    out = run("evaluate", "houses.gpx", "test_houses.csv").out
    for word in ("SMSE", "RMSE", "MSLL", "NLPD", "CRPS", "coverage 99 %", "per query"):
        assert word in out


def test_calibrated_intervals_are_those_of_python(run) -> None:
    args = ("--drop", "id", "--one-hot", "auto", "--calibrate", "conformal")
    assert run(*FIT, *args, "-q").code == 0
    model = gpexperts.load("new.gpx")
    assert model.calibrate == "conformal"
    table = pacsv.read_csv("test_houses.csv")
    mean, std = direct(model, table)
    y = table["price"].to_numpy()
    inside = [np.abs(y - mean) <= model._width(level) * std for level in (0.5, 0.9, 0.95)]

    for explain in ([], ["--explain"]):
        ended = run("predict", "new.gpx", "test_houses.csv", "--level", "0.9", "-o", "out.parquet", *explain)
        assert ended.code == 0
        out = pq.read_table("out.parquet")
        lower, upper = out["lower"].to_numpy(), out["upper"].to_numpy()
        np.testing.assert_array_equal(out["std"].to_numpy(), std)
        np.testing.assert_array_equal((lower <= y) & (y <= upper), inside[1])
        np.testing.assert_allclose(upper - lower, 2 * model._width(0.9) * std)

    shares = json.loads(run("evaluate", "new.gpx", "test_houses.csv", "--json").out)["coverage"]
    assert [shares[level] for level in ("0.5", "0.9", "0.95")] == [pytest.approx(i.mean()) for i in inside]
    assert shares["0.99"] is None  # 75 rows were held out
    assert "not defined" in run("evaluate", "new.gpx", "test_houses.csv").out
    assert "rows_held_out 75" in run("info", "new.gpx").out
    assert run("report", "new.gpx", "test_houses.csv", "-o", "report.html").code == 0

    Path("out.parquet").unlink()
    ended = run("predict", "new.gpx", "test_houses.csv", "--level", "0.99", "-o", "out.parquet")
    assert (ended.code, Path("out.parquet").exists()) == (2, False)
    assert "needs at least 99 rows held out" in ended.err
    assert "calibrate must be" in run(*FIT, *args[:-1], "conform").err


def test_info_tells_what_the_model_is(run) -> None:
    facts = json.loads(run("info", "houses.gpx", "--json").out)
    model = gpexperts.load("houses.gpx")
    assert facts["trained_on"]["rows"] == 300
    assert facts["trained_on"]["source"] == "houses.csv"
    assert facts["trained_on"]["sha256"] == model.table_.sha256
    assert facts["file"]["bytes"] == Path("houses.gpx").stat().st_size
    assert facts["inputs"][0]["name"] == "area"
    assert facts["inputs"][0]["low"] == pytest.approx(model.table_.columns[0].low)
    assert facts["model"]["experts"] == 3
    assert "length_scale[area]" in facts["model"]["hyperparameters"]
    out = run("info", "houses.gpx").out
    for word in ("houses.csv", "300 rows", "RBF", "town=west", "3, of"):
        assert word in out


def test_info_of_a_model_from_python(run, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    DistributedGPRegressor(n_experts=2, optimizer=None).fit(X, X[:, 0]).save("array.gpx")
    assert "an array in Python" in run("info", "array.gpx").out
    ended = run("predict", "array.gpx", "new_houses.csv", "-o", "out.csv")
    assert ended.code == 2
    assert "knows no column names" in ended.err


# ------------------------------------------------------------------------------------ error paths


def table_with(column: str, *values: str) -> str:
    rows = [f"{v},{i}" for i, v in enumerate(values)]
    return "\n".join([f"{column},price", *rows]) + "\n"


ERRORS = {
    ("fit", "none.csv", *FIT[2:]): "none.csv does not exist",
    ("fit", ".", *FIT[2:], "--format", "csv"): "is a folder",
    ("fit", "houses.gpx", *FIT[2:]): "format of houses.gpx cannot be told from its name",
    ("fit", "houses.csv.gz", *FIT[2:]): "houses.csv.gz does not exist",
    ("fit", "x.parquet.gz", *FIT[2:]): "parquet compresses itself",
    ("fit", "houses.csv", *FIT[2:], "--format", "parquet"): "houses.csv cannot be read",
    ("fit", "houses.csv", *FIT[2:], "--format", "excel"): "Unknown format 'excel'",
    ("fit", "houses.csv", "-t", "cost", "-o", "new.gpx"): "has no column cost; its columns are id, area",
    (*FIT, "--features", "size"): "has no column size",
    (*FIT, "--features", "area,price"): "also among --features",
    (*FIT, "--features", "area", "--drop", "area"): "No column of houses.csv is left as an input",
    (*FIT, "--drop", "id"): "a model takes numbers: town (3 different values). There are two ways",
    (*FIT, "--one-hot", "auto"): "Column id has 300 different values",
    (*FIT, "--drop", "id,town", "--one-hot", "town"): "town, which is not among the inputs",
    (*FIT, "--features", "area", "--n-experts", "0"): "n_experts must be at least 1",
    (*FIT, "--features", "area", "--n-experts", "many"): "n_experts must be 'auto' or a positive int",
    (*FIT, "--features", "area", "--kernel", "rough"): "Unknown kernel 'rough'",
    (*FIT, "--features", "area", "--config", "bad.toml"): "bad.toml is not valid TOML",
    (*FIT, "--features", "area", "--config", "odd.toml"): "sets n_expert, which is not a parameter",
    (*FIT, "--features", "area", "--config", "stage.toml"): "[selection] needs a name",
    (*FIT, "--features", "area", "--config", "setting.toml"): "unexpected keyword argument 'colour'",
    (*FIT, "--features", "area", "--config", "none.toml"): "No such file",
    ("fit", "houses.csv", "-t", "town", "--features", "area", "-o", "new.gpx"): "target town holds string",
    ("fit", "houses.csv", "-t", "price", "--features", "area", "-o", "no/new.gpx"): "folder no does not",
    ("fit", "twice.csv", *FIT[2:]): "several columns of the same name: a",
    ("fit", "empty.csv", *FIT[2:]): "is empty",
    ("fit", "header.csv", *FIT[2:]): "has no rows",
    ("fit", "ragged.csv", *FIT[2:]): "ragged.csv cannot be read: CSV parse error",
    ("fit", "dates.csv", *FIT[2:]): "hold neither numbers nor text: when (date32[day])",
    ("fit", "infinite.csv", *FIT[2:]): "Column a of infinite.csv holds infinity in 1 rows",
    ("fit", "blank.csv", *FIT[2:], "--drop-missing"): "no row without missing values: a alone lacks 2",
    ("predict", "none.gpx", "new_houses.csv", "-o", "out.csv"): "No such file",
    ("predict", "houses.csv", "new_houses.csv", "-o", "out.csv"): "is not a gpexperts model",
    ("predict", "cut.gpx", "new_houses.csv", "-o", "out.csv"): "cut short",
    ("predict", "houses.gpx", "twice.csv", "-o", "out.csv"): "same name",
    ("predict", "houses.gpx", "header.csv", "-o", "out.csv"): "has no column area, rooms, town",
    ("predict", "houses.gpx", "unseen.csv", "-o", "out.csv"): "holds east, which the model has not seen",
    ("predict", "houses.gpx", "words.csv", "-o", "out.csv"): "invalid value 'large'",
    ("predict", "houses.gpx", "words.parquet", "-o", "out.csv"): "Column area of words.parquet should hold",
    ("predict", "houses.gpx", "new_houses.csv", "-o", "out.csv", "--keep", "key"): "has no column key",
    ("predict", "houses.gpx", "mean.csv", "-o", "out.csv", "--keep", "mean"): "column mean cannot be kept",
    ("predict", "houses.gpx", "new_houses.csv", "-o", "out.csv", "--level", "95"): "strictly between 0 and 1",
    ("predict", "houses.gpx", "new_houses.csv", "-o", "out.xls"): "cannot be told from its name",
    ("predict", "houses.gpx", "new_houses.csv", "-o", "no/out.csv"): "folder no does not exist",
    ("predict", "houses.gpx", "-", "--format", "parquet", "-o", "out.csv"): "Standard input and output are",
    ("evaluate", "houses.gpx", "new_houses.csv"): "has no column price",
    ("info", "houses.csv"): "is not a gpexperts model",
    ("fit", "houses.csv", "-o", "new.gpx"): "Missing option",
    ("fits",): "No such command",
}  # fmt: skip


@pytest.mark.parametrize("args", ERRORS, ids=" ".join)
def test_errors_end_with_code_2_and_one_paragraph(run, args: tuple[str, ...]) -> None:
    Path("bad.toml").write_text("n_experts = ")
    Path("odd.toml").write_text("n_expert = 3")
    Path("stage.toml").write_text('[selection]\nmetric = "kernel"')
    Path("setting.toml").write_text('[selection]\nname = "knn"\ncolour = 1')
    Path("twice.csv").write_text("a,a,price\n1,2,3\n")
    Path("empty.csv").write_text("")
    Path("header.csv").write_text("a,price\n")
    Path("ragged.csv").write_text("a,price\n1,2\n3\n")
    Path("dates.csv").write_text(table_with("when", "2024-01-01", "2024-01-02"))
    Path("infinite.csv").write_text(table_with("a", "1", "inf"))
    Path("blank.csv").write_text(table_with("a", "", "NA"))
    Path("cut.gpx").write_bytes(Path("houses.gpx").read_bytes()[:-100])
    Path("unseen.csv").write_text("area,rooms,town\n50,2,east\n")
    Path("words.csv").write_text("area,rooms,town\nlarge,2,west\n")
    pq.write_table(pa.table({"area": ["large"], "rooms": [1], "town": ["west"]}), "words.parquet")
    Path("mean.csv").write_text("area,rooms,town,mean\n50,2,west,1\n")
    before = sorted(os.listdir())
    ended = run(*args)
    assert ended.code == 2
    assert ERRORS[args] in " ".join(ended.err.replace("│", " ").split())
    assert "Traceback" not in ended.err
    if ended.err.startswith("gpexperts: "):
        assert len(ended.err.strip().splitlines()) == 1
    assert sorted(os.listdir()) == before  # nothing is left half-written


def test_debug_shows_the_traceback_and_defects_are_owned_up_to(run, monkeypatch) -> None:
    assert "Traceback" in run("info", "houses.csv", "--debug").err
    monkeypatch.setattr("gpexperts.cli.info._facts", lambda path: 1 / 0)
    assert "unexpected ZeroDivisionError" in run("info", "houses.gpx").err


def test_quiet_and_verbose(run) -> None:
    args = (*FIT[:5], "new.gpx", "--features", "area", "--n-experts", "2")
    ended = run(*args, "--quiet")
    assert ended.err == ended.out == ""
    ended = run(*args, "-v")
    for word in ("reading houses.csv", "small blocks: 1, log likelihood", "learning whom to ask", "saving"):
        assert word in ended.err
    assert ended.out == ""


# ----------------------------------------------------------------- in a process of their own

COMMAND = [sys.executable, "-c", "from gpexperts.cli import main; main()"]


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "info", "report"])
def test_the_example_in_the_help_runs(run, command: str) -> None:
    out = run(command, "--help").out
    (example,) = re.findall(rf"^ *gpexperts ({command} .*?) *$", out, flags=re.MULTILINE)
    ended = run(*example.split())
    assert ended.code == 0, ended.err
    for written in re.findall(r"-o (\S+)", example):
        assert Path(written).stat().st_size > 0


def test_a_pipe_through_a_process(run) -> None:
    done = subprocess.run(
        [*COMMAND, "predict", "houses.gpx", "-", "-o", "-", "--keep", "id"],
        input=Path("new_houses.csv").read_bytes(), capture_output=True, check=True,
    )  # fmt: skip
    assert done.stderr == b""  # no bar and no word when piped
    assert len(done.stdout.splitlines()) == 21


@pytest.mark.parametrize(
    "args",
    [
        ("evaluate", "houses.gpx", "test_houses.csv", "--json"),
        ("info", "houses.gpx", "--json"),
        ("report", "houses.gpx", "test_houses.csv", "-o", "page.html"),
    ],
    ids=lambda args: args[0],
)
def test_the_other_commands_in_a_process(run, args: tuple[str, ...]) -> None:
    done = subprocess.run([*COMMAND, *args], capture_output=True, text=True, check=True)
    if "--json" in args:
        assert done.stderr == ""
        assert json.loads(done.stdout)
    else:
        assert done.stdout == ""
        assert Path("page.html").read_text().startswith("<!DOCTYPE html>")


def test_an_interrupt_ends_with_130_and_leaves_nothing(run) -> None:
    before = sorted(os.listdir())
    process = subprocess.Popen(
        [*COMMAND, "predict", "houses.gpx", "-", "-o", "out.csv"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    with process, process.stderr:
        process.stdin.write(b"area,rooms,town\n" + b"50,2,west\n" * 500_000)  # blocks until it is read
        process.stdin.flush()
        deadline = time.monotonic() + 100
        while sorted(os.listdir()) == before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(os.listdir()) == len(before) + 1  # the temporary file
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=100) == 130
        assert b"Traceback" not in process.stderr.read()
    assert sorted(os.listdir()) == before


def test_a_bad_row_on_standard_input_ends_it_while_more_may_come(run) -> None:
    """Arrow's thread was still reading while Python ended: "Fatal Python error", exit code 134."""
    process = subprocess.Popen(
        [*COMMAND, "predict", "houses.gpx", "-", "-o", "out.csv"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    with process, process.stderr:
        rows = memoryview(b"area,rooms,town\n50,two,west\n" + b"50,2,west\n" * 200_000)
        with contextlib.suppress(BrokenPipeError):  # it may have ended by then
            while rows:
                rows = rows[process.stdin.write(rows) :]
        assert process.wait(timeout=100) == 2
        said = process.stderr.read().decode()
    assert "column rooms, row 2: invalid value 'two'" in said
    assert said.count("\n") == 1
    assert not Path("out.csv").exists()


def test_bars_are_shown_on_a_terminal(run) -> None:
    ours, theirs = pty.openpty()
    subprocess.run([*COMMAND, *FIT, "--drop", "id,town"], stderr=theirs, check=True)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    for word in ("reading houses.csv", "training on small blocks", "log likelihood", "saving"):
        assert word in shown.decode()


def test_completion_is_offered(run) -> None:
    script = subprocess.run(
        COMMAND, env={**os.environ, "_GPEXPERTS_COMPLETE": "source_bash"}, capture_output=True, text=True
    )
    assert "complete -o default -F" in script.stdout
    offered = subprocess.run(
        COMMAND,
        env={
            **os.environ, "_GPEXPERTS_COMPLETE": "complete_bash",
            "COMP_WORDS": "gpexperts fit --kernel mat", "COMP_CWORD": "3",
        },
        capture_output=True, text=True,
    )  # fmt: skip
    assert offered.stdout.split() == ["matern52", "matern32", "matern12"]
