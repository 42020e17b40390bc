"""θ after every step of training, in a file, so that a fit that was cut short goes on where it stood.

A fit is a sequence of climbs, each from one start to one optimum; with the same data, settings and seed
the sequence is the same. The file holds their steps. A fit that is called again takes the climbs that were
finished from the file and continues the one that was not from its last θ.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from gpexperts.experts.training import TraceRow

__all__ = ["Checkpoint"]


class Checkpoint:
    """The climbs of one fit.

    Parameters
    ----------
    path : str or path-like
        Of a JSON file, which is written beside and renamed at every step: never half there.
    fit : str
        What tells this fit from others: a hash of its data and settings.
    """

    def __init__(self, path: str | os.PathLike[str], fit: str) -> None:
        self.path, self._fit = Path(path), fit
        self._climbs: list[dict[str, Any]] = []
        self._current = -1
        if self.path.exists():
            try:
                content = json.loads(self.path.read_text(encoding="utf-8"))
                same, self._climbs = content["fit"] == fit, content["climbs"]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"checkpoint={str(self.path)!r} is not a checkpoint of gpexperts. Choose another path."
                ) from error
            if not same:
                raise ValueError(
                    f"checkpoint={str(self.path)!r} belongs to a fit of other data or settings. Delete it, "
                    "or choose another path."
                )

    def begin(self) -> tuple[list[TraceRow], bool]:
        """Begin the next climb: the steps the file has of it, and whether it was finished."""
        self._current += 1
        if self._current == len(self._climbs):
            self._climbs.append({"done": False, "steps": []})
        climb = self._climbs[self._current]
        steps = [TraceRow(**{**step, "theta": np.array(step["theta"])}) for step in climb["steps"]]
        return steps, climb["done"]

    def step(self, row: TraceRow) -> None:
        """Record a step of the current climb."""
        self._climbs[self._current]["steps"].append({**row._asdict(), "theta": row.theta.tolist()})
        self._write()

    def end(self) -> None:
        """Record that the current climb is finished."""
        self._climbs[self._current]["done"] = True
        self._write()

    def _write(self) -> None:
        beside = self.path.with_name(self.path.name + ".part")
        beside.write_text(json.dumps({"fit": self._fit, "climbs": self._climbs}), encoding="utf-8")
        os.replace(beside, self.path)
