"""Importing the library is cheap, and a missing extra is named."""

from __future__ import annotations

import ast
import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import gpexperts


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


def test_no_private_name_of_another_package_is_imported() -> None:
    """Ruff's rule SLF finds private attributes, but not private names that are imported."""
    found = []
    for path in sorted(Path(gpexperts.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names = [f"{module}{alias.name}" for alias in node.names]
            theirs = [n for n in names if n.split(".")[0] not in ("gpexperts", *sys.stdlib_module_names)]
            found += [f"{path.name}: {name}" for name in theirs if re.search(r"(^|\.)_(?!_)", name)]
    assert found == []


USES = {
    "pyarrow": ("import gpexperts.tables.reading", "cli"),
    "typer": ("from gpexperts.cli import main; main()", "cli"),
    "jinja2": ("from gpexperts.report.page import render; render({})", "cli"),
    "starlette": ("import gpexperts.serve", "serve"),
    "prometheus_client": ("import gpexperts.serve", "serve"),
    "flwr": ("import gpexperts.federated", "federated"),
    "matplotlib": ("from gpexperts.plot import TraceDisplay as T; T.from_predictions([1, 2])", "plot"),
}
"""Missing package ↦ code that needs it, and the extra that has it."""

FORKS = """
import os, sys
import gpexperts
missing, uses = sys.argv[1::2], sys.argv[2::2]
for package, use in zip(missing, uses, strict=True):
    if os.fork() == 0:  # each in a process of its own, without importing everything again
        sys.modules[package] = None
        exec(use)
        os._exit(0)
    _, status = os.wait()
    print(f"{package} ended with {os.waitstatus_to_exitcode(status)}", file=sys.stderr, flush=True)
"""


def test_a_missing_extra_is_named_with_its_install_line() -> None:
    words = [word for package, (use, _) in USES.items() for word in (package, use)]
    done = subprocess.run([sys.executable, "-c", FORKS, *words], capture_output=True, text=True, check=True)
    rest = done.stderr
    for package, (_, extra) in USES.items():
        printed, code, rest = re.split(rf"^{package} ended with (\d+)\n", rest, flags=re.MULTILINE)
        assert int(code) > 0
        assert f"pip install 'gpexperts[{extra}]'" in printed
