"""`gpexperts plot` draws every display."""

from __future__ import annotations

import pytest

from gpexperts import plot as displays
from gpexperts.cli.plot import KINDS


def test_every_display_has_a_name() -> None:
    assert sorted(KINDS.values()) == sorted(displays.__all__)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("prediction", "graph")])
def test_pictures(run, kind: str, tmp_path) -> None:
    features = {"map": ["--features", "area,rooms"], "residuals": ["--features", "area"]}
    done = run("plot", "houses.gpx", kind, "test_houses.csv", "-o", "out.png", *features.get(kind, []))
    assert (done.code, done.err) == (0, "out.png.\n")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pie"], "Unknown picture 'pie'; known are prediction, map"),
        (["residuals"], "needs a TABLE"),
        (["map", "--features", "area"], "takes 2 --features, got 1"),
        (["map", "--features", "area,height"], "There is no input 'height'"),
        (["trace", "-o", "out.txt"], "should end in .png, .svg or .pdf"),
        (["prediction"], "for models of one input; this one has"),
    ],
)
def test_wrong_requests_are_refused(run, arguments: list[str], message: str) -> None:
    done = run("plot", "houses.gpx", *arguments)
    assert done.code == 2
    assert message in done.err


def test_a_picture_never_replaces_an_input(run, tmp_path) -> None:
    for name in ("houses.gpx", "test_houses.csv"):
        (tmp_path / "out.png").unlink(missing_ok=True)
        (tmp_path / "out.png").hardlink_to(tmp_path / name)
        content = (tmp_path / name).read_bytes()
        done = run("plot", "houses.gpx", "predicted", "test_houses.csv", "-o", "out.png")
        assert done.code == 2
        assert f"The output would replace an input: {name} is read" in done.err
        assert (tmp_path / name).read_bytes() == content
