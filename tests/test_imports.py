"""Importing the library is cheap, and a missing extra is named."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest


def imported(code: str) -> set[str]:
    script = f"import sys, json; {code}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def cpu_seconds(code: str) -> float:
    """Least of three: a clock would measure what else the machine is doing."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def test_no_other_package_is_imported() -> None:
    """Whatever a selector, a partition, a plot or a model file needs is imported when it is used."""
    # Three small modules that only later versions of scikit-learn import by themselves.
    theirs = imported("import sklearn.gaussian_process, concurrent.futures.thread, fractions, numpy.typing")
    extra = imported("import sklearn.gaussian_process, gpexperts") - theirs
    assert {name for name in extra if name.split(".")[0] != "gpexperts"} == set()


@pytest.mark.slow
def test_at_most_a_fifth_of_a_second_more() -> None:
    theirs = cpu_seconds("import sklearn.gaussian_process")
    assert cpu_seconds("import gpexperts") <= theirs + 0.2


@pytest.mark.parametrize(
    ("missing", "use", "extra"),
    [
        ("pyarrow", "import gpexperts.tables.reading", "cli"),
        ("typer", "from gpexperts.cli import main; main()", "cli"),
        ("jinja2", "from gpexperts.report.page import render; render({})", "cli"),
        ("flwr", "import gpexperts.federated", "federated"),
        ("starlette", "import gpexperts.serve", "serve"),
        ("prometheus_client", "import gpexperts.serve", "serve"),
        ("matplotlib", "from gpexperts.plot import TraceDisplay as T; T.from_predictions([1, 2])", "plot"),
    ],
)
def test_a_missing_extra_is_named_with_its_install_line(missing: str, use: str, extra: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None\n{use}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert f"pip install 'gpexperts[{extra}]'" in done.stderr
