"""Ctrl-C at random moments: the estimator stays usable, files stay whole, threads end."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from gpexperts import DistributedGPRegressor
from gpexperts.engines import ThreadEngine, threads
from gpexperts.files import appearing

ROOT = Path(__file__).resolve().parents[2]
WORK = ("fit", "refit", "predict", "save")


@pytest.mark.skipif(sys.platform == "win32", reason="interval timers are POSIX's")
@pytest.mark.parametrize(
    ("what", "rounds"),
    [
        (",".join(WORK), 3),
        *(pytest.param(work, 150, marks=pytest.mark.slow) for work in WORK),
    ],
)
def test_interrupts_at_random_moments(what: str, rounds: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.robustness.interrupted", what, str(rounds), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {int(hits) for hits in done.stdout.split()} == {rounds}


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    return X, X[:, 0] + 0.1 * rng.normal(size=60)


class Failing(ThreadEngine):
    """Is interrupted where `fails` is set."""

    fails = False

    def map(self, function, items, costs=None):
        if self.fails:
            raise KeyboardInterrupt
        return super().map(function, items, costs)


def test_a_fit_that_fails_leaves_the_former_model() -> None:
    X, y = data()
    engine = Failing(1)
    model = DistributedGPRegressor(n_experts=3, kernel="rbf", optimizer=None, engine=engine, random_state=0)
    before = model.fit(X, y).predict(X, return_std=True)
    engine.fails = True
    with pytest.raises(KeyboardInterrupt):
        model.fit(100 + 5 * X[:30], 7 * y[:30])
    engine.fails = False
    np.testing.assert_array_equal(model.predict(X, return_std=True), before)
    assert len(model.labels_) == 60


def test_a_first_fit_that_fails_leaves_an_unfitted_model() -> None:
    X, y = data()
    engine = Failing(1)
    engine.fails = True
    model = DistributedGPRegressor(kernel="rbf", optimizer=None, engine=engine)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_an_interrupt_while_threads_are_started_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two starts: the first thread must not work through the whole queue."""
    started = []
    start = threads.start_new_thread

    def start_once(*args):
        if started:
            raise KeyboardInterrupt
        started.append(True)
        return start(*args)

    monkeypatch.setattr(threads, "start_new_thread", start_once)
    done = []

    def slow(item: int) -> None:
        time.sleep(0.01)
        done.append(item)

    with pytest.raises(KeyboardInterrupt):
        ThreadEngine(2).map(slow, range(10_000))
    assert len(done) < 5000  # this thread may have to wait for a core


def _interrupted_write(path: Path, content: str | None) -> None:
    with appearing(path) as part:
        if content:
            part.write_text(content)
        raise KeyboardInterrupt


def test_an_interrupted_write_leaves_the_former_file(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("before")
    for content in (None, "half"):
        with pytest.raises(KeyboardInterrupt):
            _interrupted_write(tmp_path / "there", content)
        assert [p.name for p in tmp_path.iterdir()] == ["there"]
        assert (tmp_path / "there").read_text() == "before"


def test_an_interrupt_while_the_network_learns_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """scikit-learn ends the training of a network at Ctrl-C with a warning only."""
    from sklearn.neural_network import MLPClassifier

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(MLPClassifier, "_backprop", interrupted)
    X, y = data()
    model = DistributedGPRegressor(n_experts=3, kernel="rbf", optimizer=None, selection="dnn", random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
