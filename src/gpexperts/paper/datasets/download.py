"""Fetch a file over HTTP so that it is whole and right, or not there at all.

The bytes go to a temporary file beside the target, which is renamed when all of them have arrived and the
checksum fits. A checksum that nobody knew beforehand is pinned: it is written beside the files when the
first download succeeds, and later downloads of the same file must agree with it.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

__all__ = ["ChecksumError", "DownloadError", "Progress", "fetch", "sha256_of"]

Progress = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes so far, and the bytes in all (None: not known)."""

_CHUNK = 1 << 18
_PINS = "checksums.json"


class DownloadError(OSError):
    """A file could not be downloaded."""


class ChecksumError(DownloadError):
    """What was downloaded is not what was expected."""


def fetch(
    url: str,
    path: Path,
    *,
    sha256: str | None = None,
    retries: int = 4,
    pause: float = 1.0,
    timeout: float = 30.0,
    progress: Progress | None = None,
) -> Path:
    """Download `url` to `path`.

    Parameters
    ----------
    url : str
    path : Path
        Where the file goes; its folder is made.
    sha256 : str, optional
        The checksum it must have; by default the one pinned for this file name in the same folder.
    retries : int
        Further attempts after a fault that may pass: a dropped connection, a server's error.
    pause : float
        Seconds before the second attempt; doubled before each further one.
    timeout : float
        Seconds without a byte after which an attempt is given up.
    progress : callable, optional
        See `Progress`.

    Raises
    ------
    ChecksumError
        If the file is not the expected one.
    DownloadError
        If all attempts failed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    expected = sha256 or _pins(path.parent).get(path.name)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        for attempt in range(retries + 1):
            try:
                found = _receive(url, part, timeout, progress)
                break
            except (OSError, http.client.HTTPException) as error:
                if attempt == retries or not _may_pass(error):
                    raise DownloadError(
                        f"{url} could not be downloaded after {attempt + 1} attempts: {error}."
                    ) from error
                time.sleep(pause * 2**attempt)
        if expected is not None and found != expected:
            raise ChecksumError(
                f"{url} has the SHA-256 checksum {found}, expected {expected}: the file has changed at its "
                f"home or was tampered with. If you trust it, delete its line in {path.parent / _PINS}."
            )
        _pin(path, found)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def sha256_of(path: Path) -> str:
    """Return the SHA-256 checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _receive(url: str, part: Path, timeout: float, progress: Progress | None) -> str:
    """Write the answer to `part` and return its checksum; an answer cut short is an error."""
    digest, done = hashlib.sha256(), 0
    request = urllib.request.Request(url, headers={"User-Agent": "gpexperts"})
    with urllib.request.urlopen(request, timeout=timeout) as answer, part.open("wb") as file:
        length = answer.headers.get("Content-Length")
        total = int(length) if length else None
        while chunk := answer.read(_CHUNK):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(part.name.split(f".{os.getpid()}.")[0], done, total)
    if total is not None and done != total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes")
    return digest.hexdigest()


def _may_pass(error: Exception) -> bool:
    """Whether another attempt may succeed: not where there is no such file, or no network to ask."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500 or error.code in (408, 429)
    return not isinstance(getattr(error, "reason", None), socket.gaierror)


def _pins(folder: Path) -> dict[str, str]:
    path = folder / _PINS
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def _pin(path: Path, sha256: str) -> None:
    pins = _pins(path.parent) | {path.name: sha256}
    part = path.parent / f"{_PINS}.{os.getpid()}.part"
    part.write_text(json.dumps(pins, indent=1, sort_keys=True) + "\n")
    part.replace(path.parent / _PINS)
