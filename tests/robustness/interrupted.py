"""Run as a program: interrupt fit, predict or save at random moments, and look at what is left.

    python -m tests.robustness.interrupted fit,refit,predict,save ROUNDS FOLDER

Prints how many times each work was cut short; ends with an AssertionError where something is amiss. The
interrupts are those of Ctrl-C: a signal whose handler raises KeyboardInterrupt in the main thread.
"""

from __future__ import annotations

import _thread
import pickle
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gpexperts import DistributedGPRegressor, load
from gpexperts.engines import blas_threads, threads


def cut_short(work: Callable[[], object], seconds: float) -> bool:
    """Do some work and press Ctrl-C after a while; whether it had not ended by then."""
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        work()
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    except KeyboardInterrupt:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    return False


def repeatedly(rounds: int, attempt: Callable[[float], bool]) -> int:
    """Attempt interrupts until that many have hit, at moments that adapt to the speed of the machine."""
    rng = np.random.default_rng(7)
    span, hits, attempts = 0.5, 0, 0
    while hits < rounds and attempts < 20 * rounds:
        hit = attempt(rng.uniform(0, span))
        hits, attempts = hits + hit, attempts + 1
        span *= 1.2 if hit else 0.7
    return hits


def data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(120, 2))
    return X, np.sin(4 * X[:, 0]) + 0.1 * rng.normal(size=120)


def new_model() -> DistributedGPRegressor:
    return DistributedGPRegressor(
        n_experts=5, kernel="matern32", selection="dnn", n_neighbors=16, n_jobs=2, random_state=0
    )


def predictions(model: DistributedGPRegressor) -> np.ndarray:
    return np.concatenate(model.predict(data(9)[0], return_std=True))


def check_nothing_is_left_running() -> None:
    # The item in work is finished, no further one is begun.
    deadline = time.monotonic() + 100.0
    while alive := _thread._count():
        assert time.monotonic() < deadline, f"still running: {alive} threads"
        time.sleep(0.01)
    with blas_threads(1):  # completes what an interrupt may have left undone
        pass
    assert threads._before is None


def interrupt_fit(rounds: int, folder: Path) -> int:
    X, y = data(0)
    expected = predictions(new_model().fit(X, y))

    def attempt(seconds: float) -> bool:
        model = new_model()
        before = set(vars(model))
        hit = cut_short(lambda: model.fit(X, y), seconds)
        check_nothing_is_left_running()
        if hit:
            assert set(vars(model)) == before, "an interrupted fit left something behind"
            model.fit(X, y)
        np.testing.assert_array_equal(predictions(model), expected)
        return hit

    return repeatedly(rounds, attempt)


def interrupt_refit(rounds: int, folder: Path) -> int:
    (X, y), other = data(2), data(1)
    model = new_model().fit(*other)
    expected = predictions(model)

    def attempt(seconds: float) -> bool:
        hit = cut_short(lambda: model.fit(X[:, ::-1] * 5, y * 3), seconds)
        check_nothing_is_left_running()
        if not hit:
            model.fit(*other)
        np.testing.assert_array_equal(predictions(model), expected)
        return hit

    return repeatedly(rounds, attempt)


def interrupt_predict(rounds: int, folder: Path) -> int:
    fitted = new_model().fit(*data(1))
    expected = predictions(fitted)
    fresh = pickle.dumps(fitted)  # without factors

    def attempt(seconds: float) -> bool:
        model = pickle.loads(fresh)
        hit = cut_short(lambda: predictions(model), seconds)
        check_nothing_is_left_running()
        np.testing.assert_array_equal(predictions(model), expected)
        return hit

    return repeatedly(rounds, attempt)


def interrupt_save(rounds: int, folder: Path) -> int:
    models = [new_model().fit(*data(seed)) for seed in (1, 2)]
    expected = {predictions(m).tobytes() for m in models}
    path = folder / "model.gpx"
    models[0].save(path, include_factors=True)

    def attempt(seconds: float) -> bool:
        models.reverse()
        hit = cut_short(lambda: models[0].save(path, include_factors=True), seconds)
        assert predictions(load(path)).tobytes() in expected
        assert [p.name for p in folder.iterdir()] == ["model.gpx"], "a half-written file was left behind"
        return hit

    return repeatedly(rounds, attempt)


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    rounds, folder = int(sys.argv[2]), Path(sys.argv[3])
    print(*(globals()[f"interrupt_{what}"](rounds, folder) for what in sys.argv[1].split(",")))
