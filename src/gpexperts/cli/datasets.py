"""`gpexperts datasets`: the data sets of the paper, and which of them are present."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.table import Table

from gpexperts.memory import readable_size
from gpexperts.paper.datasets.base import DATASETS, DataSetMissingError, cache_folder, find, load
from gpexperts.paper.datasets.download import sha256_of

__all__ = ["datasets"]


def datasets(
    download: Annotated[
        str | None, typer.Option(help="Download this data set, or all, into the cache.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the files with those of the published results.")
    ] = False,
) -> None:
    """List the data sets, their size, and whether they are present.

    Files are searched in the folder GPEXPERTS_DATA, then in the cache.

    Example: gpexperts datasets --download concrete
    """
    console = Console()
    if download is not None:
        _download(list(DATASETS) if download == "all" else [download], console)
    table = Table("name", "aliases", "rows", "inputs", "content", "present")
    for name, dataset in DATASETS.items():
        path = find(name)
        table.add_row(
            name,
            ", ".join(dataset.aliases),
            f"{dataset.rows:,}",
            str(dataset.columns),
            dataset.title,
            "–" if path is None else _present(path, dataset.prepared_sha256 if check else None),
        )
    console.print(table)
    console.print(f"Cache: {cache_folder()}", soft_wrap=True)


def _present(path: Path, expected: str | None) -> str:
    size = readable_size(path.stat().st_size)
    if expected is None:
        return size
    return f"{size}, {'the same file' if sha256_of(path) == expected else 'another file'}"


def _download(names: list[str], console: Console) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    failed = False
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def show(filename: str, done: int, total: int | None) -> None:
            if filename not in tasks:
                tasks[filename] = progress.add_task(filename, total=total)
            progress.update(tasks[filename], completed=done)

        for name in names:
            try:
                load(name, progress=show)
            except (DataSetMissingError, ValueError) as error:
                console.print(f"{name}: {error}", soft_wrap=True)
                failed = True
    if failed:
        raise typer.Exit(1)
