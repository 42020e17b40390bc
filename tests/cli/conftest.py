"""A folder with the tables of the examples, and a function that runs a command in it."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from gpexperts.cli import main


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def write_houses(path: Path, n: int, seed: int, *, target: bool = True) -> None:
    rng = np.random.default_rng(seed)
    lines = ["id,area,rooms,town" + ",price" * target]
    for i in range(n):
        area, rooms, town = rng.uniform(30, 200), rng.integers(1, 7), rng.choice(["north", "south", "west"])
        price = 2 * area + 15 * rooms + 30 * (town == "west") + 40 * np.sin(area / 20) + 8 * rng.normal()
        lines.append(f"h{i},{area:.1f},{rooms},{town}" + f",{price:.1f}" * target)
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder; its models are fitted once, and tests work on copies."""
    folder = tmp_path_factory.mktemp("houses")
    write_houses(folder / "houses.csv", 300, 0)
    write_houses(folder / "test_houses.csv", 60, 1)
    write_houses(folder / "new_houses.csv", 20, 2, target=False)
    (folder / "untrained.toml").write_text('optimizer = "none"\nn_selected = 2\nn_neighbors = 0\n')
    argv = ["gpexperts", "fit", "houses.csv", "-t", "price", "--drop", "id", "--n-experts", "3", "--quiet"]
    models = {"houses.gpx": ["--kernel", "rbf"], "untrained.gpx": ["--config", "untrained.toml"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, more in models.items():
            patch.setattr(sys, "argv", [*argv, "-o", name, *more])
            with pytest.raises(SystemExit) as end:
                main()
            assert end.value.code == 0
    return folder


@pytest.fixture
def run(
    houses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """Run `gpexperts` with the given arguments in a copy of the folder."""
    for file in houses.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)

    def command(*argv: str, stdin: str = "") -> Ended:
        monkeypatch.setattr(sys, "argv", ["gpexperts", *argv])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        return Ended(int(end.value.code or 0), *capfd.readouterr())

    return command
