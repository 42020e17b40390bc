"""`gpexperts reproduce`: the tables and figures of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gpexperts.paper.experiment import Experiment
from gpexperts.paper.experiments import EXPERIMENTS
from gpexperts.paper.runner import QUICK
from gpexperts.paper.runner import reproduce as run_experiment

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment, or all.", show_default=False)] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the experiments and stop.")] = False,
    seeds: Annotated[
        int | None, typer.Option(help="Number of seeds; the default depends on the experiment.", min=1)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the results.  [default: out/reproduction]", show_default=False),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"One seed on at most {QUICK[0]} rows: each in under a minute.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(help="Write the page of claims and results, from finished runs in --out, to this file."),
    ] = None,
) -> None:
    """Reproduce a table or figure of the paper; finished runs are not repeated.

    Each experiment writes NAME.csv (all runs), NAME.md (a table beside the numbers of the paper), NAME.png
    and NAME.svg.

    Example: gpexperts reproduce concrete-baselines --seeds 5 --out results
    """
    console = Console()
    out = out or Path("out/reproduction-quick" if quick else "out/reproduction")
    if page is not None:
        from gpexperts.paper.page import write_page

        write_page(out, page)
        console.print(f"The page is in {page}")
        return
    if listing or name is None:
        console.print(_listing())
        return
    if name != "all" and name not in EXPERIMENTS:
        known = ", ".join(EXPERIMENTS)
        raise typer.BadParameter(
            f"{name!r} is not an experiment; choose one of {known}, or all.", param_hint="NAME"
        )
    chosen = list(EXPERIMENTS.values()) if name == "all" else [EXPERIMENTS[name]]
    try:
        for experiment in chosen:
            _run(experiment, out, seeds, quick, console)
    except KeyboardInterrupt:
        console.print(
            f"Stopped. Finished runs are kept in {out}; the same command continues.", soft_wrap=True
        )
        raise


def _listing() -> Table:
    table = Table("name", "paper", "content")
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.paper, experiment.about)
    return table


def _run(experiment: Experiment, out: Path, seeds: int | None, quick: bool, console: Console) -> None:
    count = seeds or (1 if quick else experiment.seeds)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(experiment.name, total=None)
        outcome = run_experiment(
            experiment,
            out,
            range(count),
            QUICK if quick else None,
            lambda label, done, total: progress.update(task, description=label, completed=done, total=total),
        )
    where = out / f"{experiment.name}.md"
    console.print(f"{experiment.name}: {outcome.seconds:.1f} s, results in {where}", soft_wrap=True)
    for data in outcome.missing:
        console.print(
            f"  not run: {data} is not present; try `gpexperts datasets --download {data}`", soft_wrap=True
        )
