"""Progress bars on a terminal."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from gpexperts.text import printable

__all__ = ["Bars"]

_BAR, _OTHERS = 24, 14
"""Columns of the bar; and of the spinner, the time and the spaces between."""


def _cut() -> Column:
    """A column whose text is cut where the terminal is too narrow."""
    return Column(no_wrap=True, overflow="ellipsis")


class Bars:
    """One bar per stage on standard error, with the stage and the value of the objective.

    The bar of a stage with an unknown number of steps moves without filling.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._progress = Progress(
            SpinnerColumn(finished_text="✓"),
            # A file may be called [/].
            TextColumn("{task.description}", markup=False, table_column=_cut()),
            BarColumn(bar_width=_BAR),
            TextColumn("{task.fields[note]}", markup=False, table_column=_cut()),
            TimeElapsedColumn(),
            console=console or Console(stderr=True),
        )
        self._task: TaskID | None = None
        self._done = 0

    def __enter__(self) -> Bars:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        self._progress.stop()

    def message(self, level: int, text: str) -> None:
        if self._task is not None and level == 1:
            self._progress.update(self._task, note=self._cut_note(printable(text)))

    def start(self, stage: str, total: int | None) -> None:
        self.finish()
        self._done = 0
        self._task = self._progress.add_task(printable(stage), total=total, note="")

    def advance(self, steps: int, note: str) -> None:
        if self._task is not None:
            self._done += steps
            self._progress.update(
                self._task, advance=steps, note=self._cut_note(printable(note)) or f"{self._done:,}"
            )

    def _cut_note(self, note: str) -> str:
        """Cut a note to what the stage and the bar leave of the line."""
        (stage,) = [task.description for task in self._progress.tasks if task.id == self._task]
        room = max(8, self._progress.console.width - len(stage) - _BAR - _OTHERS)
        return note if len(note) <= room else f"{note[: room - 1]}…"

    def finish(self) -> None:
        if self._task is not None:
            self._progress.update(self._task, total=1, completed=1)
            self._task = None
