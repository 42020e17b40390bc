"""A file of finished runs, one JSON line per run.

A line is appended by a single write. An incomplete line, left by a crash, is ignored; its run is repeated.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gpexperts.paper.experiment import Config, Row

__all__ = ["RunStore"]


class RunStore:
    """The runs in a file.

    Parameters
    ----------
    path : Path
        Created, with its folder, when the first run is added.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._runs = {_key(run["experiment"], run["config"], run["seed"]): run for run in self._read()}

    def find(self, experiment: str, config: Config, seed: int) -> list[Row] | None:
        """Return the rows of a finished run, or None."""
        run = self._runs.get(_key(experiment, config, seed))
        return None if run is None else list(run["rows"])

    def add(self, experiment: str, config: Config, seed: int, rows: list[Row], seconds: float) -> None:
        """Append a finished run."""
        run = {
            "experiment": experiment,
            "config": config,
            "seed": seed,
            "seconds": round(seconds, 3),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": _versions(),
            "rows": rows,
        }
        line = json.dumps(run, ensure_ascii=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # An incomplete line must not be joined with this one.
        if self.path.is_file() and self.path.stat().st_size and not self._ends_whole():
            line = "\n" + line
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._runs[_key(experiment, config, seed)] = json.loads(line)

    def seconds(self, experiment: str) -> float:
        """Return the seconds of all runs of an experiment."""
        return sum(run["seconds"] for run in self._runs.values() if run["experiment"] == experiment)

    def _ends_whole(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def _read(self) -> Iterator[dict[str, Any]]:
        if not self.path.is_file():
            return
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                continue  # incomplete line of a crashed run


def _key(experiment: str, config: Config, seed: int) -> str:
    return json.dumps([experiment, config, seed], sort_keys=True)


def _versions() -> dict[str, str]:
    packages = ("gpexperts", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
