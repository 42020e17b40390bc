"""Reporters are notified of every stage and step."""

from __future__ import annotations

import io
import pickle
import re

import numpy as np
import pytest
import sklearn
from rich.console import Console

from gpexperts import DistributedGPRegressor
from gpexperts.cli.bars import Bars
from gpexperts.progress import PrintReporter, report_only_to, report_to, reporters

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(150, 2))
Y = np.sin(6 * X[:, 0]) + 0.1 * RNG.standard_normal(150)
STAGES = [
    "training on small blocks",
    "dividing the rows among experts",
    "fitting the selector",
    "choosing experts and neighbours",
]


class Recorder:
    """Records what is reported."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.notes: list[str] = []
        self.messages: list[str] = []
        self.rows = 0
        self.finished = 0

    def message(self, level: int, text: str) -> None:
        self.messages.append(text)

    def start(self, stage: str, total: int | None) -> None:
        self.stages.append(stage)

    def advance(self, steps: int, note: str) -> None:
        self.rows += steps
        self.notes.append(note)

    def finish(self) -> None:
        self.finished += 1


def model(**settings: object) -> DistributedGPRegressor:
    return DistributedGPRegressor(**{"n_experts": 3, "kernel": "rbf", "random_state": 0, **settings})


def test_fit_and_predict_report_stages_and_steps() -> None:
    recorder = Recorder()
    with report_to(recorder):
        fitted = model().fit(X, Y)
    assert recorder.stages == STAGES
    assert len(recorder.notes) >= len(fitted.trace_) > 2
    assert recorder.notes[0].startswith("log likelihood ")
    assert any(message.startswith("experts: ") for message in recorder.messages)
    assert recorder.finished == 1
    recorder = Recorder()
    with report_to(Recorder()), report_only_to(recorder):
        fitted.predict(X, return_std=True)
    assert recorder.stages == ["evaluating experts"]
    assert recorder.rows == len(X)


def test_a_reporter_is_removed_after_an_error() -> None:
    recorder = Recorder()
    with pytest.raises(ZeroDivisionError), report_to(recorder):
        raise ZeroDivisionError
    reporters().message(1, "no reporter is active")
    assert recorder.messages == []


@pytest.mark.parametrize("verbose", [0, 1, 2])
def test_verbose_prints(verbose: int, capsys: pytest.CaptureFixture[str]) -> None:
    model(verbose=verbose).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    if verbose == 0:
        assert lines == []
        return
    assert [f"[gpexperts] {stage} …" for stage in STAGES] == [line for line in lines if line.endswith("…")]
    steps = [line for line in lines if "log likelihood" in line]
    assert len(steps) > 10 if verbose == 2 else 0 < len(steps) < 10


def test_bars_show_the_stage_and_the_objective() -> None:
    screen = io.StringIO()
    with Bars(Console(file=screen, force_terminal=True, width=120)) as bars, report_to(bars):
        model().fit(X, Y).predict(X)
    shown = screen.getvalue()
    for word in (*STAGES, "log likelihood", "evaluating experts"):
        assert word in shown


has_callbacks = pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9), reason="scikit-learn has callbacks from 1.9"
)


@has_callbacks
def test_callbacks_of_scikit_learn_are_notified_of_the_same_tasks() -> None:
    class Callback:
        def __init__(self) -> None:
            self.tasks: list[tuple[str, str]] = []

        def setup(self, estimator, context) -> None:
            self.tasks.append(("setup", context.task_name))

        def on_fit_task_begin(self, estimator, context) -> None:
            self.tasks.append(("begin", context.task_name))

        def on_fit_task_end(self, estimator, context) -> None:
            self.tasks.append(("end", context.task_name))

        def teardown(self, estimator, context) -> None:
            self.tasks.append(("teardown", context.task_name))

    recorder = Callback()
    fitted = model().set_callbacks(recorder).fit(X, Y)
    begun = [name for what, name in recorder.tasks if what == "begin"]
    assert begun[0] == "fit"
    assert [name for name in begun if name in STAGES] == STAGES
    assert sum(name.startswith("log likelihood") for name in begun) >= len(fitted.trace_)
    assert [name for what, name in recorder.tasks if what == "end"][-1] == "fit"
    assert recorder.tasks[0] == ("setup", "fit")
    assert recorder.tasks[-1] == ("teardown", "fit")
    recorder.tasks.clear()
    fitted.predict(X)
    assert recorder.tasks == []


@has_callbacks
def test_the_progress_bar_of_scikit_learn_works(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    from sklearn.callback import ProgressBar
    from sklearn.model_selection import GridSearchCV

    fitted = model().set_callbacks(ProgressBar()).fit(X, Y)
    assert "DistributedGPRegressor" in capsys.readouterr().out
    fitted.save(tmp_path / "model.gpx")  # a callback is no part of the model
    np.testing.assert_array_equal(fitted.set_callbacks().predict(X), model().fit(X, Y).predict(X))
    pickle.loads(pickle.dumps(fitted))
    search = GridSearchCV(model(optimizer=None), {"n_selected": [1, 2]}, cv=2)
    search.set_callbacks(ProgressBar()).fit(X, Y)  # callbacks come down from a meta-estimator
    assert search.best_score_ < 1


class Terminal(io.StringIO):
    """A terminal of 40 columns."""

    def isatty(self) -> bool:
        return True


def test_lines_fit_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    screen = Terminal()
    reporter = PrintReporter(1, screen)
    reporter.start("a stage with a name that is longer than the line", 10)
    reporter.advance(1, "log likelihood -1234.5678 and much more")
    reporter.message(1, "prediction: own expert of 128 rows: loss 0.41 on 500 held-out rows")
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[0].endswith("…")
    assert "held-out rows" in " ".join(map(str.strip, lines))  # a decision is wrapped, not cut


def test_bars_fit_the_terminal() -> None:
    console = Console(file=io.StringIO(), width=50, force_terminal=True, color_system=None)
    with Bars(console) as bars:
        bars.start("predicting a table with quite a long name.parquet", 10)
        bars.message(1, "prediction: own expert of 128 rows: loss 0.41 on 500 held-out rows")
    lines = console.file.getvalue().replace("\r", "\n").splitlines()
    visible = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in lines]
    assert max(map(len, visible)) <= 50
