"""Text that comes from files, made safe to print on a terminal."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["printable", "printable_json"]


def printable(text: object) -> str:
    r"""Return text on one line, with escapes such as ``\x1b`` in place of characters that steer a terminal.

    These are control characters, line ends, bidirectional and other invisible marks, and lone surrogates.
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def printable_json(value: Any) -> str:
    """Return JSON of several lines, in which such characters are escaped as JSON escapes them."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
