"""Requests and responses: JSON objects, or Arrow streams."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from gpexperts.exceptions import TableError
from gpexperts.serve.inputs import Inputs
from gpexperts.serve.problems import Problem
from gpexperts.tables.arrow import pa
from gpexperts.tables.unpacked import arrow_bytes

__all__ = ["ARROW", "JSON", "Limits", "level_of", "read_rows", "written"]

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
_DEFAULT_LEVEL = 0.95
_UNPACKED = 10
"""A compressed table may unpack to this times the bytes of the longest request."""


@dataclass(frozen=True)
class Limits:
    """What a request may ask for."""

    body_bytes: int = 10_000_000
    """Size of a request."""
    rows: int = 10_000
    """Rows of a request to /predict."""
    explained_rows: int = 100
    """Rows of a request to /explain."""
    waiting_rows: int = 100_000
    """Rows of all requests that are not yet done; further requests are refused until some are."""
    body_seconds: float = 30.0
    """Time in which a request must have arrived."""


async def read_rows(request: Request, inputs: Inputs, limits: Limits, most: int, kinds: Any) -> np.ndarray:
    """Return the rows of a request as numbers (n, d).

    Parameters
    ----------
    request : Request
    inputs : Inputs
    limits : Limits
    most : int
        Rows that the request may have.
    kinds : tuple of str
        Media types that are accepted.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in kinds:
        raise Problem(415, f"The content type is {kind!r}; expected {' or '.join(kinds)}.")
    body = await _body(request, limits)
    if kind == ARROW:
        table = _table(body, most, _UNPACKED * limits.body_bytes)
        return inputs.encode_table(table)
    rows = _rows(body)
    if len(rows) > most:
        _too_many(most)
    return inputs.encode(rows)


def level_of(request: Request) -> float:
    """Return the probability of the intervals of a request."""
    given = request.query_params.getlist("level") if request.scope["query_string"] else []
    if not given:
        return _DEFAULT_LEVEL
    try:
        level = float(given[0])
    except ValueError:
        level = -1.0
    if len(given) > 1 or not 0.0 < level < 1.0:
        raise Problem(422, f"level is {', '.join(given)}; expected one number between 0 and 1, such as 0.95.")
    return level


def written(request: Request, columns: dict[str, np.ndarray], target: str, level: float) -> Response:
    """Return predictions as the request has them: JSON objects, or a table."""
    if request.headers["content-type"].partition(";")[0].strip().lower() == ARROW:
        table = pa.table(columns)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return Response(sink.getvalue().to_pybytes(), media_type=ARROW)
    lists = [values.tolist() for values in columns.values()]
    predictions = [dict(zip(columns, values, strict=True)) for values in zip(*lists, strict=True)]
    text = _ENCODER.encode({"target": target, "level": level, "predictions": predictions})
    return Response(text.encode(), media_type=JSON)


async def _body(request: Request, limits: Limits) -> bytes:
    most = limits.body_bytes
    declared = request.headers.get("content-length", "0")
    pieces, size = [], int(declared) if declared.isdigit() else 0
    if size <= most:
        size = 0
        try:
            async with asyncio.timeout(limits.body_seconds):
                async for piece in request.stream():
                    size += len(piece)
                    if size > most:
                        break
                    pieces.append(piece)
        except TimeoutError:
            raise Problem(408, f"The request did not arrive within {limits.body_seconds:g} s.") from None
        except ClientDisconnect:
            raise Problem(400, "The connection was closed before the request had arrived.") from None
    if size > most:
        raise Problem(413, f"The request has more than {most:,} bytes; send the rows in several requests.")
    return b"".join(pieces)


def _rows(body: bytes) -> list[Any]:
    try:
        content = _DECODER.decode(body.decode(json.detect_encoding(body)))
    except (ValueError, RecursionError) as error:
        raise Problem(400, f"The request is not JSON: {error}.") from error
    rows = content.get("rows") if isinstance(content, dict) else None
    if not isinstance(rows, list) or not rows:
        raise Problem(422, 'Expected {"rows": [{…}, …]} with one object per row, and at least one row.')
    return rows


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that JSON has")


# Made once: json.loads and json.dumps make another for every call with options.
_DECODER = json.JSONDecoder(parse_constant=_no_constant)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _table(body: bytes, most: int, most_bytes: int) -> Any:
    """Read an Arrow stream batch by batch, so that too many rows are refused before all are read."""
    batches, n_rows = [], 0
    try:
        if arrow_bytes(body, most_bytes) > most_bytes:
            raise Problem(
                413,
                f"The table unpacks to more than {most_bytes:,} bytes; send the rows in several requests.",
            )
        with pa.ipc.open_stream(body) as reader:
            for batch in reader:
                n_rows += batch.num_rows
                if n_rows > most:
                    _too_many(most)
                batches.append(batch)
            table = pa.Table.from_batches(batches, reader.schema)
        table.validate(full=True)
    except (TableError, pa.ArrowException, OSError) as error:
        raise Problem(400, f"The request is not an Arrow stream: {error}.") from error
    if len(set(table.column_names)) < table.num_columns:
        raise Problem(422, "Several columns of the table have the same name.")
    return table


def _too_many(most: int) -> NoReturn:
    raise Problem(413, f"The request has more than {most:,} rows; send them in several requests.")
