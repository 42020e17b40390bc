"""One column of a table: its type, its gaps and its values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpexperts.exceptions import TableError
from gpexperts.schema import KINDS, TableColumn
from gpexperts.tables.arrow import pa, pc
from gpexperts.tables.convert import TIME, Converter, is_text, type_kind
from gpexperts.tables.dates import ISO, date_format
from gpexperts.tables.dialect import NA_TEXTS
from gpexperts.tables.names import quoted
from gpexperts.tables.numbers import PLAIN, NumberFormat, number_format
from gpexperts.tables.reader import TableReader

__all__ = ["Seen", "see_column"]

_MOST = 0.9
"""Share of numbers, or of dates, from which on the other values count as missing."""
_SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0)


@dataclass(frozen=True)
class Seen:
    """A column and its values."""

    column: TableColumn
    values: Any
    """Converted; a ChunkedArray."""
    n_missing: int = 0
    n_distinct: int = 0
    shown: str = ""
    is_integer: bool = False
    mean_length: float = 0.0
    """Characters of a text."""
    notes: list[str] = field(default_factory=list)
    problem: str = ""
    fix: list[str] = field(default_factory=list)
    """Options that settle the problem."""


def see_column(reader: TableReader, raw: pa.ChunkedArray, name: str, given: str | None = None) -> Seen:
    """Understand one column.

    Parameters
    ----------
    reader : TableReader
    raw : ChunkedArray
        As Arrow read it.
    name : str
    given : str or None
        Its kind, if the user said so; "date:%d/%m/%y" also gives the format.
    """
    texts = _texts(reader, raw)
    column, notes, problem = _kind(reader, raw, texts, name, given)
    fix = [] if not problem else ["--drop", quoted(name)]
    if column is None:
        return Seen(TableColumn(name, "number"), None, shown=str(raw.type), problem=problem, fix=fix)
    if problem and column.kind == "number":
        fix = ["--type", f"{name}=number"]
    converted = Converter([column], reader.source, reader.options).convert(pa.table({name: raw}))
    values = converted.table.column(0)
    for _, (position, text) in converted.examples.items():
        count = converted.counts[name]
        what = "date" if column.kind == "date" else "finite number"
        many = f"{count} values are no {what}" if count > 1 else f"1 value is no {what}"
        notes.append(f"{many}, such as {text!r} in row {reader.first_row + position}: read as missing")
    distinct = pc.count_distinct(values).as_py()
    if (column.kind == "number") and (code := _sentinel(values)) is not None:
        notes.append(f"{code:g} may stand for missing values: --na-values {code:g}")
    return Seen(
        column, values, values.null_count, distinct, _shown(values, column), _is_integer(raw, values, column),
        float(pc.mean(pc.utf8_length(values)).as_py() or 0.0) if column.kind == "category" else 0.0,
        notes, problem, fix,
    )  # fmt: skip


def _texts(reader: TableReader, raw: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """The texts of a column of text, without those that stand for a missing value; else None."""
    if pa.types.is_dictionary(raw.type):
        raw = raw.cast(raw.type.value_type)
    if not is_text(raw.type):
        return None
    missing = pa.array([*NA_TEXTS, *reader.options.na_values], pa.string())
    texts = raw.cast(pa.string())
    return texts.filter(pc.invert(pc.is_in(texts, value_set=missing))).drop_null()


def _kind(
    reader: TableReader, raw: pa.ChunkedArray, texts: pa.ChunkedArray | None, name: str, given: str | None
) -> tuple[TableColumn | None, list[str], str]:
    """The column, notes, and a problem."""
    kind, _, form = (given or "").partition(":")
    if kind and kind not in KINDS:
        raise TableError(f"--type {name}={given}: the type is one of {', '.join(KINDS)} (or date:FORMAT).")
    stored = type_kind(raw.type)
    if stored == "unsupported":
        return (
            None,
            [],
            f"Column {name} holds {raw.type}, which is no number, text or date; use --drop {name}.",
        )
    if texts is None:
        if not kind or kind == stored:
            return TableColumn(name, stored, format=_written(reader, raw)), [], ""
        return TableColumn(name, kind), [], ""
    if len(texts) == 0:
        return TableColumn(name, kind or "category"), [], ""
    decimal = reader.dialect.decimal if reader.dialect else None
    number, share = number_format(texts, reader.options.formats(decimal))
    dates = date_format(texts)
    if kind == "date" or (not kind and dates.share >= _MOST and dates.share >= share):
        notes, problem = _about_dates(name, form or dates.format, dates if not form else None)
        return TableColumn(name, "date", format=form or dates.format), notes, problem
    if kind == "number" or (not kind and share >= 0.5 and not _are_codes(texts)):
        return _number(texts, name, number, share, given is not None)
    return TableColumn(name, kind or "category"), [], ""


def _written(reader: TableReader, raw: pa.ChunkedArray) -> str:
    """The format of numbers that Arrow has read."""
    if pa.types.is_time(raw.type):
        return TIME
    return ",." if reader.dialect is not None and reader.dialect.decimal == "," else ""


def _number(
    texts: pa.ChunkedArray, name: str, form: NumberFormat, share: float, given: bool
) -> tuple[TableColumn, list[str], str]:
    column = TableColumn(name, "number", format="".join(form))
    notes = [f"written as {form}"] if form != PLAIN else []
    for sign in "%‰$€£¥":
        if pc.any(pc.match_substring(texts.slice(0, 1000), sign)).as_py():
            example = texts.filter(pc.match_substring(texts, sign))[0].as_py()
            notes.append(f"{example!r} is read as a number, without {sign}")
            break
    if share >= _MOST or given:
        return column, notes, ""
    odd = texts.filter(pc.invert(pc.match_substring_regex(texts, r"^\W*\d[\d\W]*$")))
    example = f", such as {odd[0].as_py()!r}" if len(odd) else ""
    return column, notes, (
        f"Column {name} holds numbers, but {1 - share:.0%} of its values are not{example}. Is it a category "
        f"(--type {name}=category), are they missing values (--type {name}=number), or is it to be left out "
        f"(--drop {name})?"
    )  # fmt: skip


def _about_dates(name: str, form: str, seen: Any) -> tuple[list[str], str]:
    if seen is None or seen.format == ISO:
        mixed = seen is not None and seen.mixed_zones
        return [], (
            f"Column {name} mixes dates with and without an offset from UTC. Write all of them in one way, "
            f"or leave it out with --drop {name}."
        ) if mixed else ""  # fmt: skip
    note = f"dates written as {form}"
    if seen.ambiguous:
        other = form.replace("%d", "%D").replace("%m", "%d").replace("%D", "%m")
        note += f" (or {other}: --type '{name}=date:{other}')"
    return [note], ""


def _are_codes(texts: pa.ChunkedArray) -> bool:
    """Whether all texts are digits, some with a leading zero."""
    digits = pc.all(pc.match_substring_regex(texts, r"^\d+$")).as_py()
    return bool(digits and pc.any(pc.match_substring_regex(texts, r"^0\d")).as_py())


def _is_integer(raw: pa.ChunkedArray, values: pa.ChunkedArray, column: TableColumn) -> bool:
    if column.kind != "number":
        return False
    if pa.types.is_integer(raw.type):
        return True
    numbers = values.drop_null().to_numpy()
    return bool(len(numbers) and np.all(numbers == np.round(numbers)))


def _sentinel(values: pa.ChunkedArray) -> float | None:
    """A number such as −999 that occurs several times, far from all others."""
    numbers = values.drop_null().to_numpy()
    if len(numbers) < 10:
        return None
    for code in (numbers.min(), numbers.max()):
        others = numbers[numbers != code]
        if code not in _SENTINELS or len(others) == 0 or len(numbers) - len(others) < 2:
            continue
        if min(abs(code - others.min()), abs(code - others.max())) > 3 * np.ptp(others) > 0:
            return float(code)
    return None


def _shown(values: pa.ChunkedArray, column: TableColumn) -> str:
    if values.null_count == len(values):
        return ""
    if column.kind == "category":
        counts = sorted(pc.value_counts(values.drop_null()).to_pylist(), key=lambda c: -c["counts"])
        return ", ".join(str(c["values"]) for c in counts[:3]) + (", …" if len(counts) > 3 else "")
    limits = pc.min_max(values)
    low, high = limits["min"].as_py(), limits["max"].as_py()
    if column.kind == "boolean":
        return f"{pc.mean(values.cast(pa.int8())).as_py():.0%} true"
    if column.kind == "date":
        return f"{low:%Y-%m-%d} to {high:%Y-%m-%d}"
    return f"{low:.5g} to {high:.5g}"
