"""The example of the gallery runs; `python -m tests.federated.test_gallery` draws its picture again.

The site is built without Flower, so that it shows a stored picture.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "_static" / "federated.png"


def run() -> dict[str, Any]:
    """Run the example without a screen, and return its variables."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    return runpy.run_path(str(ROOT / "examples" / "plot_federated.py"))


def test_the_example_runs_and_predicts_well() -> None:
    found = run()
    assert np.sqrt(np.mean((found["mean"] - np.sin(4 * found["x"][:, 0])) ** 2)) < 0.1
    assert {row.get_label() for row in found["ax"].lines} > {"federation", "truth"}
    assert PICTURE.read_bytes().startswith(b"\x89PNG")


if __name__ == "__main__":
    run()["fig"].savefig(PICTURE, dpi=100)
