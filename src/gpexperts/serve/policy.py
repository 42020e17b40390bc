"""The Content-Security-Policy of the service."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

__all__ = ["security_policy"]


def security_policy() -> str:
    """Return the policy that allows the style and the script of the page, by their hashes, and no others."""
    return "; ".join(
        [
            "default-src 'self'",
            f"style-src '{_hash('page.css')}'",
            f"script-src '{_hash('page.js')}'",
            "img-src data:",
            "frame-ancestors 'none'",
        ]
    )


def _hash(name: str) -> str:
    text = (files("gpexperts.serve") / name).read_text(encoding="utf-8")
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
