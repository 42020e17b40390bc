"""Does an installed gpexperts work? Run by check_versions.sh, in an empty folder.

python smoke.py [EXTRAS]     EXTRAS is "" for the package alone, "[all]" with all extras
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import gpexperts
from gpexperts import DistributedGPRegressor


def in_python() -> None:
    """Fit, predict, save and load."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 2))
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(400)
    model = DistributedGPRegressor(n_experts=4, random_state=0).fit(X[:300], y[:300])
    mean, std = model.predict(X[300:], return_std=True)
    assert np.mean((mean - y[300:]) ** 2) < 0.1 * np.var(y), "predictions are poor"
    assert 0.85 < np.mean(np.abs(mean - y[300:]) < 1.96 * std) <= 1.0, "intervals are not honest"
    model.save("model.gpx")
    np.testing.assert_array_equal(gpexperts.load("model.gpx").predict(X[300:]), mean)
    rows = np.column_stack([X, y])
    np.savetxt("table.csv", rows, delimiter=",", header="a,b,y", comments="", fmt="%.6f")


def command(*args: str, code: int = 0) -> str:
    """Run `gpexperts` as a user would, and return what it said."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "gpexperts"), *args], capture_output=True, text=True
    )
    assert done.returncode == code, f"gpexperts {' '.join(args)} ended with {done.returncode}: {done.stderr}"
    print(f"gpexperts {' '.join(args)}: ok")
    return done.stdout + done.stderr


def main(extras: str) -> None:
    """Try what the installed extras promise."""
    assert "site-packages" in gpexperts.__file__, f"not the installed package: {gpexperts.__file__}"
    print(f"gpexperts {gpexperts.__version__}, NumPy {np.__version__}, Python {sys.version.split()[0]}")
    in_python()
    if not extras:
        assert "pip install 'gpexperts[cli]'" in command("--version", code=2)
        return
    assert gpexperts.__version__ in command("--version")
    assert "concrete-baselines" in command("reproduce", "--list")
    command("fit", "table.csv", "-t", "y", "-o", "table.gpx", "--n-experts", "3")
    command("predict", "table.gpx", "table.csv", "-o", "out.parquet")
    command("evaluate", "table.gpx", "table.csv")
    command("report", "table.gpx", "table.csv", "-o", "report.html")
    command("demo")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
