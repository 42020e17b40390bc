"""Files that appear complete or not at all, and never in place of an input."""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["appearing", "check_not_an_input", "check_target"]


@contextmanager
def appearing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it is renamed on success and removed on failure.

    Readers of `path` see the old file or the complete new one.
    """
    target = check_target(path)
    # The name is chosen before the file exists, so that it is removed after any interrupt. It has only the
    # beginning of the target's name, since names of files are limited to 255 bytes.
    part = target.with_name(f".{target.name[:40]}.{uuid.uuid4().hex}.part")
    mode = target.stat().st_mode & 0o777 if target.exists() else None
    try:
        try:
            # A new file gets its permissions from the system; nobody may read what replaces a private one.
            part.touch(mode=0o666 if mode is None else 0o600, exist_ok=False)
        except OSError as error:  # name the target, not the temporary file
            raise OSError(error.errno, error.strerror, str(target)) from error
        yield part
        _sync(part)
        if mode is not None:
            part.chmod(mode)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def check_target(path: str | os.PathLike[str]) -> Path:
    """Return the path of the file to write, links followed; raise an error if it cannot be written."""
    target = Path(path)
    if target.is_symlink():
        target = Path(os.path.realpath(target))  # replace the file, not the link
        if target.is_symlink():
            raise OSError(errno.ELOOP, "This link leads back to itself; give the name of a file", str(path))
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


def check_not_an_input(
    output: str | os.PathLike[str] | int, *inputs: str | os.PathLike[str] | int | None
) -> None:
    """Refuse to write to a file that is also read, under any of its names.

    Parameters
    ----------
    output, *inputs : path-like or int
        Files, which may not exist, or descriptors of open files.
    """
    written = _identity(output)
    for source in inputs:
        if written is not None and source is not None and _identity(source) == written:
            name = source if not isinstance(source, int) else output
            where = "standard input" if isinstance(name, int) else str(name)
            raise FileExistsError(
                f"The output would replace an input: {where} is read by this command. Give the output "
                "another name."
            )


def _identity(file: str | os.PathLike[str] | int) -> tuple[int, int] | None:
    """Return device and inode of a regular file, links followed; None for anything else."""
    try:
        status = os.stat(file)
    except OSError:  # there is no such file
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _sync(path: Path) -> None:
    """Wait until the file is on disk: a full disk raises an error here at the latest."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
