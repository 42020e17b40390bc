r"""The file: safetensors, whose metadata hold a checksum and a JSON header.

    8 bytes     length of safetensors' own header
    header      {"__metadata__":{"gpexperts":"<sha256> {\"format\": 1, …}"}, "a0": …}
    data        the arrays

The checksum is that of the whole file with sixty-four zeros in its own place. It finds damage, not
malice: whoever can write a file can compute it. Malice is met by what a file can say at all (see
`values`), and by sizes that are checked against the length of the file before anything is allocated.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from gpexperts.exceptions import CorruptModelError, NewerFormatError, NotAModelFileError, UnsavableModelError
from gpexperts.files import appearing

__all__ = ["FORMAT", "checksum_of", "read", "read_header", "write"]

FORMAT = 1
"""Version of the file format; raised when an older gpexperts could not read what is written."""

_PREFIX = b'{"__metadata__":{"gpexperts":"'
_CHECKSUM_AT = 8 + len(_PREFIX)
_DIGITS = 64
_MAX_HEADER = 32 * 1024**2
_MAX_VALUES = 1_000_000
"""Values in a header, as far as its punctuation tells: each takes many times the room of its text."""
_CHUNK = 1024**2


def write(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> int:
    """Write a file that appears whole or not at all, and return its size in bytes."""
    text = json.dumps({"format": FORMAT, **header}, allow_nan=False, ensure_ascii=False)
    if sum(map(text.count, ",[{")) > _MAX_VALUES:
        raise UnsavableModelError(
            "The model has more experts, columns or training steps than a file can hold."
        )
    with appearing(path) as part:
        try:
            save_file(arrays, part, metadata={"gpexperts": f"{'0' * _DIGITS} {text}"})
        except SafetensorError as error:  # the arrays are sound, so that it is the disk
            raise OSError(f"{path} cannot be written: {error}") from error
        size = part.stat().st_size
        with part.open("r+b") as file:
            if _header_length(file, size) > _MAX_HEADER:
                raise ValueError(f"The model's header is larger than {_MAX_HEADER} bytes.")
            digest = _digest(file)
            file.seek(_CHECKSUM_AT)
            file.write(digest.encode())
    return size


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a file, after every check."""
    _check(Path(path))
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            metadata = file.metadata()
            text = metadata["gpexperts"][_DIGITS:]
            if sum(map(text.count, ",[{")) > _MAX_VALUES:
                raise CorruptModelError(f"{path} is damaged: its header holds too many values.")
            header = json.loads(text, parse_constant=_no_number)
            if not isinstance(header, dict) or not isinstance(header.get("format"), int):
                raise CorruptModelError(f"{path} is damaged: its header does not say which format it has.")
            if header["format"] > FORMAT:
                raise NewerFormatError(
                    f"{path} was written by gpexperts {header.get('version', '?')} in format "
                    f"{header['format']}; this version reads up to format {FORMAT}. Upgrade gpexperts: "
                    "pip install --upgrade gpexperts"
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


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def checksum_of(path: str | os.PathLike[str]) -> str:
    """Return the checksum a file carries."""
    with Path(path).open("rb") as file:
        file.seek(_CHECKSUM_AT)
        return file.read(_DIGITS).decode("ascii", "replace")


def _check(path: Path) -> None:
    """Refuse what is not a model, was cut short or altered; needs no more memory than a chunk."""
    size = path.stat().st_size
    if not path.is_file():  # opening a pipe waits for somebody to write to it
        raise NotAModelFileError(f"{path} is not a gpexperts model: it is not even a file.")
    with path.open("rb") as file:
        start = file.read(_CHECKSUM_AT + _DIGITS)
        if start[8:_CHECKSUM_AT] != _PREFIX[: max(0, len(start) - 8)] or len(start) <= 8:
            raise NotAModelFileError(
                f"{path} is not a gpexperts model: it does not begin as one. Model files are written by "
                "`gpexperts fit` or model.save(path)."
            )
        length = _header_length(file, size)
        if len(start) < _CHECKSUM_AT + _DIGITS or 8 + length > size:
            raise CorruptModelError(f"{path} is cut short: {size} bytes are less than its header needs.")
        if length > _MAX_HEADER:
            raise CorruptModelError(f"{path} is damaged: its header claims {length} bytes.")
        if start[_CHECKSUM_AT:].decode("ascii", "replace") != _digest(file):
            raise CorruptModelError(
                f"{path} was cut short or altered: its checksum does not match its contents. "
                "Copy it again, or fit and save the model again."
            )


def _header_length(file: BinaryIO, size: int) -> int:
    file.seek(0)
    (length,) = struct.unpack("<Q", file.read(8))
    return int(length)


def _digest(file: BinaryIO) -> str:
    """Return the SHA-256 of the file with zeros in the checksum's place."""
    digest = hashlib.sha256()
    file.seek(0)
    digest.update(file.read(_CHECKSUM_AT))
    file.read(_DIGITS)
    digest.update(b"0" * _DIGITS)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
