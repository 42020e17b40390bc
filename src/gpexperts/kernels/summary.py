"""A kernel in one line, however many length scales it has."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["kernel_summary"]

_MOST = 6
"""Length scales that are written out."""
_LIST = re.compile(r"length_scale=\[([^\]]*)\]")


def kernel_summary(kernel: Any) -> str:
    """Return the text of a kernel, with the number and the range of many length scales in place of all."""
    return _LIST.sub(_shortened, " ".join(str(kernel).split()))


def _shortened(found: re.Match[str]) -> str:
    values = [float(value) for value in found[1].replace(",", " ").split() if value != "..."]
    if len(values) <= _MOST:
        return found[0]
    return f"length_scale=[{len(values)} values from {min(values):g} to {max(values):g}]"
