"""`gpexperts plot`: a picture of a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from gpexperts.cli.common import Debug, DropMissing, Format, Quiet, print_note, split

__all__ = ["KINDS", "plot"]

KINDS = {
    "prediction": "PredictionDisplay1D",
    "map": "MapDisplay",
    "effects": "EffectDisplay",
    "residuals": "ResidualsDisplay",
    "predicted": "PredictedObservedDisplay",
    "calibration": "CalibrationDisplay",
    "experts": "ExpertMapDisplay",
    "graph": "ExpertGraphDisplay",
    "trace": "TraceDisplay",
}
"""Names of the pictures, and the displays that draw them."""
_NEED_ROWS = ("residuals", "predicted", "calibration")


def plot(
    model: Annotated[Path, typer.Argument(help="A model file of `gpexperts fit`.")],
    kind: Annotated[
        str, typer.Argument(help=f"One of: {', '.join(KINDS)}.", autocompletion=lambda: list(KINDS))
    ],
    table: Annotated[
        str | None, typer.Argument(help="Rows with the target; - is CSV on standard input.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The picture: .png, .svg or .pdf.")] = Path(
        "plot.png"
    ),
    features: Annotated[
        str, typer.Option(help="Inputs of a map, of effects, or of residuals, separated by commas.")
    ] = "",
    target: Annotated[
        str | None, typer.Option(help="Column of the target, if its name differs from the training table.")
    ] = None,
    drop_missing: DropMissing = False,
    format: Format = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw a model, or its predictions for a table.

    Example:

    gpexperts plot houses.gpx effects -o effects.png

    gpexperts plot houses.gpx residuals test_houses.csv --features area -o residuals.png
    """
    from gpexperts import load
    from gpexperts import plot as displays
    from gpexperts.exceptions import MissingExtraError
    from gpexperts.files import appearing
    from gpexperts.inspection import single_output

    if kind not in KINDS:
        raise ValueError(f"Unknown picture {kind!r}; known are {', '.join(KINDS)}.")
    if kind in _NEED_ROWS and table is None:
        raise ValueError(f"The picture {kind!r} needs a TABLE with the target.")
    if out.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"{out} should end in .png, .svg or .pdf.")
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("Plotting", "plot") from error
    matplotlib.use("Agg")
    fitted = load(model)
    single_output(fitted, "gpexperts plot")
    rows = None if table is None else _rows(fitted, table, target, drop_missing, format)
    numbers = _numbers(fitted, split(features), kind)
    drawn = _drawn(getattr(displays, KINDS[kind]), kind, fitted, rows, numbers)
    with appearing(out) as part:
        drawn.figure_.savefig(part, format=out.suffix[1:], dpi=150)
    print_note(f"{out}.", quiet)


def _rows(fitted: Any, table: str, target: str | None, drop_missing: bool, format: str | None) -> Any:
    from gpexperts.tables.reading import open_table
    from gpexperts.tables.rows import predict_rows, target_column

    reader = open_table(table, format)
    return predict_rows(fitted, reader, target_column(fitted, target), drop_missing=drop_missing)


def _numbers(fitted: Any, names: list[str], kind: str) -> list[Any]:
    """The inputs that were named: their positions, or for effects their names."""
    from gpexperts.inspection import feature_names

    if kind == "effects":
        return names
    known = feature_names(fitted)
    for name in names:
        if name not in known:
            raise ValueError(f"There is no input {name!r}; the inputs are {', '.join(known)}.")
    wanted = {"map": 2, "residuals": 1}.get(kind, 0)
    if names and len(names) != wanted:
        raise ValueError(f"The picture {kind!r} takes {wanted} --features, got {len(names)}.")
    return [known.index(name) for name in names]


def _drawn(display: Any, kind: str, fitted: Any, rows: Any, chosen: list[Any]) -> Any:
    from gpexperts.inspection import names_were_checked

    X, y = (None, None) if rows is None else (rows.X, rows.y)
    draw: Callable[..., Any] = display.from_estimator
    with names_were_checked():
        if kind in ("trace", "graph"):
            return draw(fitted)
        if kind == "experts":
            return draw(fitted, X)
        if kind == "effects":
            return draw(fitted, X, features=chosen or None)
        if kind == "map":
            return draw(fitted, X, y, **({"features": tuple(chosen)} if chosen else {}))
        if kind == "residuals":
            return draw(fitted, X, y, feature=chosen[0] if chosen else None)
        return draw(fitted, X, y)
