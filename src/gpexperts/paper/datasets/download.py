"""Download a file with pooch and check it.

pooch writes to a temporary file and renames it after the check of its checksum. If no checksum is known, the
one of the first download is stored beside the file, and later downloads must have the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpexperts.exceptions import MissingExtraError
from gpexperts.files import appearing

__all__ = ["ChecksumError", "DownloadError", "Progress", "fetch", "sha256_of"]

Progress = Callable[[str, int, int | None], None]
"""Called with the name of the file, the bytes received, and the size of the file (None if unknown)."""

_CHUNK = 1 << 18
_CHECKSUMS = "checksums.json"


class DownloadError(OSError):
    """A file could not be downloaded."""


class ChecksumError(DownloadError):
    """A downloaded file differs from the expected one."""


class _IncompleteError(ValueError):
    """Fewer bytes than announced; pooch tries again after a ValueError."""


def fetch(
    url: str,
    path: Path,
    *,
    sha256: str | None = None,
    retries: int = 2,
    timeout: float = 30.0,
    progress: Progress | None = None,
) -> Path:
    """Download `url` to `path`.

    Parameters
    ----------
    url : str
    path : Path
        Its folder is created. An existing file is kept if its checksum is right.
    sha256 : str, optional
        Expected checksum; by default the stored one of the first download.
    retries : int
        Further attempts after a failure.
    timeout : float
        Seconds without a byte after which an attempt has failed.
    progress : callable, optional
        See `Progress`.

    Raises
    ------
    MissingExtraError
        If pooch is not installed.
    ChecksumError
        If the file is not the expected one.
    DownloadError
        If all attempts failed.
    """
    try:
        import pooch
    except ModuleNotFoundError as error:
        raise MissingExtraError("Downloading a data set", "paper") from error
    pooch.get_logger().setLevel("ERROR")  # failures are raised, progress is reported
    expected = sha256 or _checksums(path.parent).get(path.name)
    source = pooch.Pooch(
        path.parent, "", registry={path.name: expected}, urls={path.name: url}, retry_if_failed=retries
    )
    try:
        source.fetch(path.name, downloader=_Downloader(path.name, timeout, progress))
    except DownloadError:
        raise
    except (_IncompleteError, OSError) as error:
        raise DownloadError(f"{url} could not be downloaded: {error}.") from error
    except ValueError as error:
        raise ChecksumError(
            f"{url} does not have the expected SHA-256 checksum {expected}: the file has changed since its "
            f"first download. If you trust the new file, delete its line in {path.parent / _CHECKSUMS}."
        ) from error
    _store_checksum(path)
    return path


def sha256_of(path: Path) -> str:
    """Return the SHA-256 checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Downloader:
    """Downloader and progress bar of pooch: checks the size, and does not repeat refused requests."""

    total = 0
    """Announced size in bytes; set by pooch, 0 if unknown."""

    def __init__(self, name: str, timeout: float, progress: Progress | None) -> None:
        self._name, self._timeout, self._progress = name, timeout, progress
        self._received = 0

    def __call__(self, url: str, output_file: str, pooch: Any) -> None:
        from pooch import HTTPDownloader

        self._received = 0
        download = HTTPDownloader(
            progressbar=self,
            chunk_size=_CHUNK,
            timeout=self._timeout,
            headers={"Accept-Encoding": "identity"},  # otherwise sizes are not comparable
        )
        try:
            download(url, output_file, pooch)
        except OSError as error:
            status = getattr(getattr(error, "response", None), "status_code", 500)
            if status < 500 and status not in (408, 429):
                raise DownloadError(f"{url} could not be downloaded: {error}.") from error
            raise
        size = Path(output_file).stat().st_size
        if self.total and size != self.total:
            raise _IncompleteError(f"the connection ended after {size} of {self.total} bytes")

    def update(self, n_bytes: int) -> None:
        self._received += n_bytes
        if self._progress is not None:
            received = min(self._received, self.total) if self.total else self._received
            self._progress(self._name, received, self.total or None)

    def reset(self) -> None:
        self._received = 0

    def close(self) -> None:
        """Part of the protocol of a progress bar."""


def _checksums(folder: Path) -> dict[str, str]:
    path = folder / _CHECKSUMS
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def _store_checksum(path: Path) -> None:
    checksums = _checksums(path.parent) | {path.name: sha256_of(path)}
    with appearing(path.parent / _CHECKSUMS) as part:
        part.write_text(json.dumps(checksums, indent=1, sort_keys=True) + "\n")
