"""`gpexperts plot`: a picture of a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from gpexperts.cli.common import Debug, Format, Quiet, check_output, print_note
from gpexperts.cli.table_options import with_table_options

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


@with_table_options
def plot(
    reading: dict[str, Any],
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

    check_output(out, model, table)
    names = [name.strip() for name in features.split(",") if name.strip()]
    wanted = {"map": 2, "residuals": 1}.get(kind)
    if names and wanted and len(names) != wanted:
        raise ValueError(f"The picture {kind!r} takes {wanted} --features, got {len(names)}.")
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
    rows = None if table is None else _rows(fitted, table, target, format, reading)
    drawn = _drawn(getattr(displays, KINDS[kind]), kind, fitted, rows, names)
    with appearing(out) as part:
        drawn.figure_.savefig(part, format=out.suffix[1:], dpi=150)
    print_note(f"{out}.", quiet)


def _rows(fitted: Any, table: str, target: str | None, format: str | None, reading: Any) -> Any:
    from gpexperts.cli.new_rows import open_new_rows
    from gpexperts.tables.rows import predict_rows, target_columns

    reader = open_new_rows(fitted, table, format, reading)
    return predict_rows(fitted, reader, target_columns(fitted, [target] if target else ()))


def _drawn(display: Any, kind: str, fitted: Any, rows: Any, chosen: list[str]) -> Any:
    X, y = (None, None) if rows is None else (rows.inputs, rows.y)
    draw: Callable[..., Any] = display.from_estimator
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
