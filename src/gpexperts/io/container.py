r"""The file: safetensors, whose metadata hold a checksum and a JSON header.

    8 bytes     length of safetensors' own header
    header      {"__metadata__":{"gpexperts":"<sha256> {\"format\": 3, …}"}, "experts.X": …}
    data        the arrays

The checksum is that of the whole file with 64 zeros in its own place. It finds damage. Against forged files,
whose checksum may be right, the values of a header are limited to a closed set (see `values`), and sizes are
compared with the length of the file before anything is allocated.

safetensors reads the file. It can write only arrays that are in memory, which the rows of a model on a
cluster may not fit; so the file is written here, in batches of rows.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from gpexperts.exceptions import CorruptModelError, NewerFormatError, NotAModelFileError, UnsavableModelError
from gpexperts.files import appearing

__all__ = ["FORMAT", "Streamed", "checksum_of", "read", "read_header", "write"]

FORMAT = 3
"""Version of the file format. It is raised when older versions of gpexperts cannot read new files."""

_PREFIX = b'{"__metadata__":{"gpexperts":"'
_CHECKSUM_AT = 8 + len(_PREFIX)
_DIGITS = 64
_MAX_HEADER = 32 * 1024**2
_FEW_VALUES, _BYTES_PER_VALUE = 100_000, 20
"""Limits of the number of values in a header: a value takes many times the memory of its text."""
_CHUNK = 1024**2
_KINDS = {"b": "BOOL", "i": "I", "u": "U", "f": "F"}


class Streamed(NamedTuple):
    """An array that is not in memory, written in batches of rows."""

    shape: tuple[int, ...]
    batches: Callable[[], Iterable[np.ndarray]]
    """All rows, in order."""
    dtype: np.dtype[Any] = np.dtype(np.float64)

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * int(np.prod(self.shape))


def write(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, np.ndarray | Streamed]
) -> int:
    """Write a file that appears whole or not at all, and return its size in bytes."""
    # ASCII only: one other character would multiply the memory of the whole text by up to four.
    text = json.dumps({"format": FORMAT, **header}, allow_nan=False)
    # Wide numbers first, so that every array starts at a multiple of its item size.
    named = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    start = _start_of_file(text, named)
    whole = len(start) + sum(array.nbytes for _, array in named)
    if len(start) - 8 > _MAX_HEADER or _has_too_many_values(text, whole):
        raise UnsavableModelError("The model has more columns or categories than a model file can hold.")
    digest = hashlib.sha256(start)
    size = len(start)
    with appearing(path) as part, part.open("wb") as file:
        file.write(start)
        for name, array in named:
            written = 0
            for batch in array.batches() if isinstance(array, Streamed) else [array]:
                little_endian = np.ascontiguousarray(batch, dtype=array.dtype.newbyteorder("<"))
                raw = little_endian.reshape(-1).view(np.uint8).data
                digest.update(raw)
                file.write(raw)
                written += raw.nbytes
            if written != array.nbytes:
                raise RuntimeError(f"{name} has {array.nbytes} bytes, but its batches have {written}.")
            size += written
        file.seek(_CHECKSUM_AT)
        file.write(digest.hexdigest().encode())
    return size


def _start_of_file(text: str, named: list[tuple[str, np.ndarray | Streamed]]) -> bytes:
    """Length and header, with zeros in place of the checksum."""
    header: dict[str, Any] = {"__metadata__": {"gpexperts": f"{'0' * _DIGITS} {text}"}}
    end = 0
    for name, array in named:
        kind = array.dtype.kind
        dtype = _KINDS[kind] + ("" if kind == "b" else str(8 * array.dtype.itemsize))
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    return struct.pack("<Q", len(raw)) + raw


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a file, after every check."""
    _check(Path(path))
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            metadata = file.metadata()
            text = metadata["gpexperts"][_DIGITS:]
            if not text.isascii() or _has_too_many_values(text, Path(path).stat().st_size):
                raise CorruptModelError(f"{path} is damaged: its header is not ASCII or has too many values.")
            header = json.loads(text, parse_constant=_no_number)
            if not isinstance(header, dict) or not isinstance(header.get("format"), int):
                raise CorruptModelError(f"{path} is damaged: its header has no format number.")
            if header["format"] > FORMAT:
                raise NewerFormatError(
                    f"{path} was written by gpexperts {header.get('version', '?')!r:.40} in format "
                    f"{header['format']}; this version reads up to format {FORMAT}. Upgrade gpexperts: "
                    "pip install --upgrade gpexperts"
                )
            if header["format"] < FORMAT:
                raise CorruptModelError(
                    f"{path} has format {header['format']}, which only unreleased versions of gpexperts have "
                    "written. Fit and save the model again."
                )
            return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, RecursionError, KeyError, OverflowError) as error:
        if isinstance(error, (CorruptModelError, NewerFormatError)):
            raise
        raise CorruptModelError(f"{path} is damaged and cannot be read: {error}") from error


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the header of a file whose checksum was verified before."""
    with safe_open(os.fspath(path), framework="numpy") as file:
        return dict(json.loads(file.metadata()["gpexperts"][_DIGITS:]))


def _has_too_many_values(text: str, size: int) -> bool:
    """Whether a header has more values, estimated from its punctuation, than a file of `size` bytes may."""
    return sum(map(text.count, ",[{")) > _FEW_VALUES + size // _BYTES_PER_VALUE


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


def checksum_of(path: str | os.PathLike[str]) -> str:
    """Return the checksum that is stored in a file."""
    with Path(path).open("rb") as file:
        file.seek(_CHECKSUM_AT)
        return file.read(_DIGITS).decode("ascii", "replace")


def _check(path: Path) -> None:
    """Refuse a file that is not a model, was cut short or altered; reads one chunk at a time."""
    size = path.stat().st_size
    if not path.is_file():  # opening a pipe waits for a writer
        raise NotAModelFileError(f"{path} is not a gpexperts model: it is not a regular file.")
    with path.open("rb") as file:
        start = file.read(_CHECKSUM_AT + _DIGITS)
        if start[8:_CHECKSUM_AT] != _PREFIX[: max(0, len(start) - 8)] or len(start) <= 8:
            raise NotAModelFileError(
                f"{path} is not a gpexperts model: it has another beginning. Model files are written by "
                "`gpexperts fit` or model.save(path)."
            )
        length = _header_length(file)
        if len(start) < _CHECKSUM_AT + _DIGITS or 8 + length > size:
            raise CorruptModelError(f"{path} is cut short: its {size} bytes end before its header does.")
        if length > _MAX_HEADER:
            raise CorruptModelError(f"{path} is damaged: the length of its header is {length}.")
        if start[_CHECKSUM_AT:].decode("ascii", "replace") != _digest(file):
            raise CorruptModelError(
                f"{path} was cut short or altered: its checksum does not match its contents. "
                "Copy it again, or fit and save the model again."
            )


def _header_length(file: BinaryIO) -> int:
    file.seek(0)
    (length,) = struct.unpack("<Q", file.read(8))
    return int(length)


def _digest(file: BinaryIO) -> str:
    """Return the SHA-256 of the file with zeros in place of the checksum."""
    digest = hashlib.sha256()
    file.seek(0)
    digest.update(file.read(_CHECKSUM_AT))
    file.read(_DIGITS)
    digest.update(b"0" * _DIGITS)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
