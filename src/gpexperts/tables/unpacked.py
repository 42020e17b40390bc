"""Tables that take far more memory than their files: small archives that unpack to gigabytes are refused.

Sizes are counted before rows are kept: by decompressing a CSV piece by piece, from the description of a
Parquet file, and from the lengths that Arrow files store in front of compressed arrays.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any

from gpexperts.exceptions import TableError
from gpexperts.memory import readable_size
from gpexperts.tables.arrow import pa

__all__ = ["arrow_bytes", "check_unpacked", "csv_bytes", "most_bytes", "parquet_bytes"]

_RATIO = 100
_FREE = 256_000_000
"""Bytes that any table may take, whatever its ratio."""
_PIECE = 4 * 1024**2
_DOUBLE = 8


def most_bytes(path: str) -> int:
    """Return the number of bytes that a table may unpack to."""
    return max(_FREE, _RATIO * os.stat(path).st_size)


def check_unpacked(path: str, n_bytes: int) -> None:
    """Refuse a table that unpacks to more than it may."""
    size = os.stat(path).st_size
    if n_bytes > most_bytes(path):
        raise TableError(
            f"{path} takes {readable_size(size)} and unpacks to at least {readable_size(n_bytes)}, "
            f"{n_bytes // max(1, size):,} times as much; more than {_RATIO} times is refused, since it may "
            "be meant to fill the memory. If you trust the table, write it as CSV without compression."
        )


def csv_bytes(path: str, compression: str) -> int:
    """Return the bytes of a compressed CSV; counting stops when there are more than allowed."""
    n_bytes, most = 0, most_bytes(path)
    with pa.input_stream(path, compression=compression) as stream:
        while n_bytes <= most and (piece := len(stream.read(_PIECE))):
            n_bytes += piece
    return n_bytes


def parquet_bytes(metadata: Any, in_memory: bool) -> int:
    """Return the bytes of the unpacked pages of a Parquet file, or of its rows if they are more.

    Parameters
    ----------
    metadata : FileMetaData
    in_memory : bool
        Whether all rows are kept: a run of equal values takes a few bytes in a page.
    """
    pages = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    return max(pages, metadata.num_rows * metadata.num_columns * _DOUBLE if in_memory else 0)


def arrow_bytes(stream: Any, most: int) -> int:
    """Return the bytes of the unpacked arrays of an Arrow stream, or of its rows if they are more.

    Counting stops when there are more than `most`. `stream` is an Arrow file, or bytes.
    """
    n_bytes = 0
    for message in pa.ipc.MessageReader.open_stream(stream):
        if message.type in ("record batch", "dictionary"):
            n_bytes += _unpacked(message)
        if n_bytes > most:
            break
    return n_bytes


def _unpacked(message: Any) -> int:
    """Return the bytes of the arrays of a record batch, from its flatbuffer and the starts of its arrays."""
    metadata, body = message.metadata.to_pybytes(), message.body
    try:
        batch = _field(metadata, _root(metadata), 2, True)
        if message.type == "dictionary":
            batch = _field(metadata, batch, 1, True)
        at = _field(metadata, batch, 0)
        n_rows = struct.unpack_from("<q", metadata, at)[0] if at else 0
        n_columns = _vector(metadata, _field(metadata, batch, 1, True))[1]
        compressed = bool(_field(metadata, batch, 3))
        arrays = sum(_length(body, offset, length, compressed) for offset, length in _arrays(metadata, batch))
    except (struct.error, IndexError) as error:
        raise TableError("an Arrow record batch is damaged.") from error
    return max(arrays, n_rows * n_columns * _DOUBLE)


def _arrays(metadata: bytes, batch: int) -> Iterator[tuple[int, int]]:
    start, count = _vector(metadata, _field(metadata, batch, 2, True))
    for i in range(count):
        yield struct.unpack_from("<qq", metadata, start + 16 * i)


def _length(body: Any, offset: int, length: int, compressed: bool) -> int:
    if not compressed or length < 8:
        return max(0, length)
    (unpacked,) = struct.unpack("<q", body.slice(offset, 8).to_pybytes())
    return length if unpacked < 0 else int(unpacked)  # −1: this array is not compressed


def _root(data: bytes) -> int:
    return int(struct.unpack_from("<I", data, 0)[0])


def _field(data: bytes, table: int, number: int, follow: bool = False) -> int:
    """Return the position of a field of a flatbuffer's table, 0 if absent, or where it points to."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    slot = 4 + 2 * number
    if slot >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset = struct.unpack_from("<H", data, vtable + slot)[0]
    if offset == 0:
        return 0
    position = int(table + offset)
    return position + int(struct.unpack_from("<I", data, position)[0]) if follow else position


def _vector(data: bytes, position: int) -> tuple[int, int]:
    """Return the position of the first item of a vector, and the number of items."""
    if position == 0:
        return 0, 0
    return position + 4, int(struct.unpack_from("<I", data, position)[0])
