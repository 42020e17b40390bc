"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["appearing", "check_target"]


@contextmanager
def appearing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes its name, on any failure it is removed.

    Whoever looks at `path` sees what was there before or all of what was written, never a part.
    """
    target = check_target(path)
    # Its name is known before it exists, so that no interrupt leaves a file that nobody removes; only the
    # beginning of the target's: a long one has no room for what is added.
    part = target.with_name(f".{target.name[:40]}.{uuid.uuid4().hex}.part")
    try:
        try:
            part.touch(mode=0o600, exist_ok=False)
        except OSError as error:  # it names the temporary file, of which nobody has heard
            raise OSError(error.errno, error.strerror, str(target)) from error
        yield part
        _sync(part)
        part.chmod(_mode_of(target))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def check_target(path: str | os.PathLike[str]) -> Path:
    """Refuse a path at which no file can appear; return the one at which it will, links followed."""
    target = Path(path)
    if target.is_symlink():
        target = target.resolve()  # the link stays, the file it leads to is replaced
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file.")
    if target.exists() and not target.is_file():
        # A pipe or a device, /dev/null above all, would be gone afterwards.
        raise FileExistsError(f"{target} is a pipe or a device; give the name of a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"The folder {target.parent} does not exist; make it first.")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"The folder {target.parent} does not let you write; choose another place.")
    return target


def _sync(path: Path) -> None:
    """Wait until the disk has it: a disk that turns out to be full says so here at the latest."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _mode_of(target: Path) -> int:
    """Permissions of the file that is replaced, or those a new file gets here (ours is private)."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
