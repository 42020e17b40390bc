"""Importing the library is cheap, and what it lacks it names."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("matplotlib", "typer", "rich", "pyarrow", "jinja2", "dask", "pandas", "playwright", "skops")


def test_the_library_imports_no_extra() -> None:
    """scikit-learn imports pandas and rich itself, where they are installed: what is ours comes after it."""
    code = (
        "import sys, sklearn.gaussian_process, sklearn.neural_network, sklearn.covariance, sklearn.cluster\n"
        "before = set(sys.modules)\n"
        "import gpexperts\n"
        f"print([m for m in {HEAVY!r} if m in set(sys.modules) - before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("missing", "use", "extra"),
    [
        ("pyarrow", "import gpexperts.tables.reading", "cli"),
        ("typer", "from gpexperts.cli import main; main()", "cli"),
        ("jinja2", "from gpexperts.report.page import render; render({})", "cli"),
        ("matplotlib", "from gpexperts.plot import TraceDisplay as T; T.from_predictions([1, 2])", "plot"),
    ],
)
def test_a_missing_extra_is_named_with_its_install_line(missing: str, use: str, extra: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None\n{use}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert f"pip install 'gpexperts[{extra}]'" in done.stderr
