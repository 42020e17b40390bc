"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["appearing", "readable_size"]


@contextmanager
def appearing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes its name, on any failure it is removed.

    Whoever looks at `path` sees what was there before or all of what was written, never a part.
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"The folder {target.parent} does not exist; make it first.")
    # Its name is known before it exists, so that no interrupt leaves a file that nobody removes.
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        part.touch(mode=0o600, exist_ok=False)
        yield part
        part.chmod(_mode_of(target))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _mode_of(target: Path) -> int:
    """Permissions of the file that is replaced, or those a new file gets here (ours is private)."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def readable_size(n_bytes: int) -> str:
    """Return 12_345_678 as '12.3 MB'."""
    size = float(n_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
