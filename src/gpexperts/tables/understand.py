"""What is in a table: types of columns, and which of them are inputs; for `inspect` and `fit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpexperts.exceptions import TableError
from gpexperts.schema import TableColumn
from gpexperts.tables.arrow import pa
from gpexperts.tables.columns_seen import Seen, see_column
from gpexperts.tables.dialect import Dialect
from gpexperts.tables.messages import display_name, join_names
from gpexperts.tables.names import quoted, require_columns
from gpexperts.tables.reader import TableReader
from gpexperts.tables.roles import reason_to_leave_out, target_notes, target_problem

__all__ = ["ColumnFacts", "Plan", "Understanding", "command_options", "guessed_target", "understand"]


class Plan(NamedTuple):
    """What the user said about the columns."""

    targets: Sequence[str] = ()
    features: Sequence[str] = ()
    """The inputs; by default all other columns."""
    drop: Sequence[str] = ()
    types: Mapping[str, str] = {}
    """Kind of some columns: "number", "category", "date", "boolean", or "date:FORMAT"."""
    weights: str | None = None
    noise_std: str | None = None
    split: str | None = None
    """The column by which rows are ordered in time, for --time-split."""

    @property
    def named(self) -> list[str]:
        """All columns that are named."""
        others = [name for name in (self.weights, self.noise_std, self.split) if name is not None]
        return [*self.targets, *self.features, *self.drop, *self.types, *others]


@dataclass(frozen=True)
class ColumnFacts:
    """One column, as understood."""

    column: TableColumn
    role: str
    """"input", "target", "weights", "noise_std" or "left out"."""
    reason: str = ""
    """Why it is left out."""
    n_missing: int = 0
    n_distinct: int = 0
    shown: str = ""
    """Its range or its most frequent levels."""
    notes: list[str] = field(default_factory=list)
    problem: str = ""
    """What must be decided before a fit."""
    fix: list[str] = field(default_factory=list)
    """Options that settle it."""

    @property
    def name(self) -> str:
        """Of the column."""
        return self.column.name


@dataclass(frozen=True)
class Understanding:
    """A table, as understood."""

    source: str
    n_rows: int
    dialect: Dialect | None
    columns: list[ColumnFacts]

    def having(self, role: str) -> list[ColumnFacts]:
        """Return the columns of a role, in the order of the table."""
        return [facts for facts in self.columns if facts.role == role]

    @property
    def inputs(self) -> list[TableColumn]:
        """The input columns."""
        return [facts.column for facts in self.having("input")]

    @property
    def left_out(self) -> dict[str, str]:
        """Columns that are no inputs, and why."""
        return {facts.name: facts.reason for facts in self.having("left out")}

    @property
    def problems(self) -> list[str]:
        """All that must be decided before a fit."""
        problems = [facts.problem for facts in self.columns if facts.problem]
        if not self.inputs:
            why = "; ".join(f"{name}: {reason}" for name, reason in self.left_out.items())
            problems.append(f"No column of {self.source} is left as an input ({why or 'it has one column'}).")
        return problems

    def check(self) -> None:
        """Raise one error with all problems."""
        if problems := self.problems:
            count = f"{len(problems)} problems. " if len(problems) > 1 else ""
            raise TableError(count + " ".join(problems))


def understand(reader: TableReader, table: pa.Table, plan: Plan) -> Understanding:
    """Understand all columns of a table.

    Parameters
    ----------
    reader : TableReader
        Where it was read from.
    table : Table
        All its rows.
    plan : Plan
    """
    source = display_name(reader.source)
    require_columns(reader.names, plan.named, source)
    for name in plan.targets:
        if name in plan.features:
            raise TableError(f"The target {name} is also among --features; it cannot be an input, too.")
    if table.num_rows == 0:
        raise TableError(f"{source} has no rows.")
    facts = [_facts(reader, table, name, plan) for name in table.column_names]
    for name in (n for n in reader.names if n not in table.column_names):
        facts.append(ColumnFacts(TableColumn(name, "number"), "left out", _asked(name, plan)))
    order = {name: i for i, name in enumerate(reader.names)}
    facts.sort(key=lambda one: order[one.name])
    return Understanding(source, table.num_rows, reader.dialect, facts)


def command_options(understanding: Understanding) -> list[str]:
    """Return the options of `fit` that settle all problems of the inputs."""
    return [word for facts in understanding.columns if facts.role != "target" for word in facts.fix]


def _asked(name: str, plan: Plan) -> str:
    return "--drop" if name in plan.drop else "not among --features"


def _facts(reader: TableReader, table: pa.Table, name: str, plan: Plan) -> ColumnFacts:
    role = _role(name, plan)
    if role == "left out":
        return ColumnFacts(TableColumn(name, "number"), role, _asked(name, plan))
    try:
        seen = see_column(reader, table.column(name), name, plan.types.get(name))
    except TableError as error:
        if name in plan.types:
            raise
        seen = Seen(TableColumn(name, "number"), None, problem=str(error), fix=["--drop", quoted(name)])
    facts = ColumnFacts(
        seen.column,
        role,
        "",
        seen.n_missing,
        seen.n_distinct,
        seen.shown,
        list(seen.notes),
        seen.problem,
        list(seen.fix),
    )
    if role != "input":
        facts = replace(facts, problem=target_problem(seen, role) or facts.problem)
        if role != "target" or facts.problem:
            return facts
        return replace(facts, notes=[*facts.notes, *target_notes(seen, reader.first_row)])
    chosen = name in plan.features or name in plan.types
    reason = reason_to_leave_out(seen, table.num_rows, chosen=chosen)
    if reason:
        return replace(facts, role="left out", reason=reason, problem="", notes=[], fix=[])
    return facts


def _role(name: str, plan: Plan) -> str:
    if name in plan.targets:
        return "target"
    if name == plan.weights:
        return "weights"
    if name == plan.noise_std:
        return "noise_std"
    if name in plan.drop or (plan.features and name not in plan.features):
        return "left out"
    return "input"


def guessed_target(understanding: Understanding) -> str:
    """Return the last column of numbers that is an input; for a suggestion only."""
    numbers = [column.name for column in understanding.inputs if column.kind == "number"]
    if not numbers:
        names = join_names([facts.name for facts in understanding.columns])
        raise TableError(f"{understanding.source} has no column of numbers to predict; it has {names}.")
    usual = [n for n in numbers if n.lower() in ("target", "y", "label", "response", "outcome")]
    return (usual or numbers)[-1]
