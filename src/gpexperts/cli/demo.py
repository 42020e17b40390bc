"""`gpexperts demo`: the synthetic problem of the paper in half a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gpexperts.paper.demo import compare, draw

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option(help="File of the figure.")] = Path("out/demo.png"),
    n: Annotated[int, typer.Option(help="Training rows.", min=100)] = 3000,
    seed: Annotated[int, typer.Option(help="Seed of the data and of the model.")] = 0,
) -> None:
    """Compare five methods on the synthetic problem of the paper, in a table and a figure.

    Example: gpexperts demo --out demo.png
    """
    console = Console()
    console.print(
        f"f(x) = 5x² sin 12x + (x³ − 0.5) sin(3x − 0.5) + 4 cos 2x + noise: {n} rows on [0, 1], "
        f"{n // 10} queries on [−0.2, 1.2], 10 experts, 5 selected per query."
    )
    rows = compare(n, seed)
    table = Table()
    table.add_column("")
    for name in ("SMSE", "MSLL", "99 % coverage", "fit s", "predict s"):
        table.add_column(name, justify="right")
    for row in rows:
        if "smse" in row:  # the other rows are the curves of the figure
            table.add_row(
                row["method"], f"{row['smse']:.4f}", f"{row['msll']:.3f}", f"{row['coverage99']:.3f}",
                f"{row['fit_seconds']:.2f}", f"{row['predict_seconds']:.3f}",
            )  # fmt: skip
    console.print(table)
    draw(rows, out)
    console.print(f"The figure is in {out}")
