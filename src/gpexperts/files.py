"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["appearing", "check_target"]


@contextmanager
def appearing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it is renamed on success and removed on failure.

    Readers of `path` see the old file or the complete new one.
    """
    target = check_target(path)
    # The name is chosen before the file exists, so that it is removed after any interrupt. It has only the
    # beginning of the target's name, since names of files are limited to 255 bytes.
    part = target.with_name(f".{target.name[:40]}.{uuid.uuid4().hex}.part")
    try:
        try:
            part.touch(mode=0o600, exist_ok=False)
        except OSError as error:  # name the target, not the temporary file
            raise OSError(error.errno, error.strerror, str(target)) from error
        yield part
        _sync(part)
        part.chmod(_mode_of(target))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the path of the file to write, links followed; raise an error if it cannot be written."""
    target = Path(path)
    if target.is_symlink():
        target = target.resolve()  # replace the file, not the link
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file.")
    if target.exists() and not target.is_file():
        # It would be replaced by a file, even /dev/null.
        raise FileExistsError(f"{target} is a pipe or a device; give the name of a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"The folder {target.parent} does not exist; create it first.")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"The folder {target.parent} is not writable; choose another one.")
    return target


def _sync(path: Path) -> None:
    """Wait until the file is on disk: a full disk raises an error here at the latest."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _mode_of(target: Path) -> int:
    """Return the permissions of the replaced file, or those of a new file; the temporary file is private."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
