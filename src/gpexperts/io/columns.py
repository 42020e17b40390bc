"""How columns are encoded, in a file."""

from __future__ import annotations

import re
from functools import cache
from typing import Any
from zoneinfo import available_timezones

import numpy as np

from gpexperts.columns import Column, ColumnEncoder
from gpexperts.columns.codes import DEGREES, most_levels
from gpexperts.columns.dates import CYCLES
from gpexperts.columns.frames import KINDS
from gpexperts.io.values import Decoder, Encoder, is_int, require

__all__ = ["encoder_tree", "restored_encoder"]

_OFFSET = re.compile(r"UTC[+-]\d\d:\d\d|[+-]\d\d:\d\d")
_MOST_DAYS = 10**9
"""Bound of the day from which time is counted: NumPy's dates in microseconds end before it."""


def encoder_tree(out: Encoder, encoder: ColumnEncoder) -> dict[str, Any]:
    """Return the tree of an encoder, by columns of its fields: a table may have thousands of columns."""
    columns = encoder.columns
    return {
        "names": [column.name for column in columns],
        "kinds": [column.kind for column in columns],
        "gaps": out.array(np.array([column.gaps for column in columns], dtype=np.int64), "columns.gaps"),
        "fills": out.array(np.array([column.fill for column in columns]), "columns.fills"),
        "levels": [
            [k, list(c.levels), c.pooled, c.degree] for k, c in enumerate(columns) if c.kind == "category"
        ],
        "dates": [[k, c.zone, c.start, list(c.cycles)] for k, c in enumerate(columns) if c.kind == "date"],
    }


def restored_encoder(read: Decoder, tree: dict[str, Any], width: int) -> ColumnEncoder:
    """Return the encoder of a tree, which must make `width` inputs."""
    names, kinds = tree["names"], tree["kinds"]
    d = len(names)
    require(isinstance(names, list) and isinstance(kinds, list) and len(kinds) == d, "columns have no kind")
    require(all(isinstance(n, str) for n in names), "names of columns are not text")
    require(all(kind in KINDS for kind in kinds), "a column is of no known kind")
    gaps, fills = read.array(tree["gaps"], (d,), np.int64), read.array(tree["fills"], (d,))
    require(bool(np.isin(gaps, (0, 1)).all()), "gaps are neither true nor false")
    further: dict[int, dict[str, Any]] = {}
    for k, levels, pooled, degree in tree["levels"]:
        require(is_int(k, 0, d - 1) and kinds[k] == "category" and k not in further, "levels of no category")
        strings = isinstance(levels, list) and all(isinstance(level, str) for level in levels)
        require(strings and len(set(levels)) == len(levels), "levels are not distinct")
        fits = degree in DEGREES and len(levels) < most_levels(degree) - gaps[k]
        require(fits, "there are more levels than their code has words")
        require(is_int(pooled, 0, 2**62), "rare levels are not counted")
        further[k] = {"levels": tuple(levels), "pooled": pooled, "degree": degree}
    for k, zone, start, cycles in tree["dates"]:
        require(is_int(k, 0, d - 1) and kinds[k] == "date" and k not in further, "dates of no date column")
        require(zone is None or _is_zone(zone), f"{zone!r:.60} is no time zone")
        known = isinstance(cycles, list) and cycles == [c for c in CYCLES if c in cycles]
        require(is_int(start, -_MOST_DAYS, _MOST_DAYS) and known, "a date column is not described")
        further[k] = {"zone": zone, "start": start, "cycles": tuple(cycles)}
    for k, kind in enumerate(kinds):
        require(kind not in ("category", "date") or k in further, f"column {k} is not described")
        if kind == "boolean":
            further[k] = {"levels": ("False", "True")}
    encoder = ColumnEncoder(
        tuple(
            Column(name, kind, bool(gap), float(fill), **further.get(k, {}))
            for k, (name, kind, gap, fill) in enumerate(zip(names, kinds, gaps, fills, strict=True))
        )
    )
    require(d > 0 and encoder.width == width, f"the columns do not make {width} inputs")
    return encoder


@cache
def _time_zones() -> frozenset[str]:
    """Names of the time zones; finding them reads hundreds of files."""
    return frozenset(available_timezones())


def _is_zone(zone: Any) -> bool:
    """Whether a name is that of a time zone or an offset; libraries may read files of other names."""
    return isinstance(zone, str) and (zone in _time_zones() or _OFFSET.fullmatch(zone) is not None)
