"""Writes the report of a model as one self-contained HTML file."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from importlib.resources import files
from typing import Any

from gpexperts.exceptions import MissingExtraError
from gpexperts.files import appearing
from gpexperts.report.content import Observed, page_data
from gpexperts.report.sentences import alarms, headlines

__all__ = ["render", "write_report"]


def write_report(
    model: Any, path: str | os.PathLike[str], *, observed: Observed | None = None, target: str | None = None
) -> int:
    """Write the report of a fitted model and return its size in bytes.

    Parameters
    ----------
    model : DistributedGPRegressor
        Fitted to one target.
    path : str or path-like
        The file to write. It is replaced only after the whole page has been written.
    observed : Observed, optional
        Predictions for rows with a known target.
    target : str, optional
        Name of the target; by default that of the training table.
    """
    table = getattr(model, "table_", None)
    name = target or ("the target" if table is None else table.target)
    page = render(page_data(model, observed, name))
    with appearing(path) as part:
        part.write_text(page, encoding="utf-8")
    return len(page.encode())


def render(data: dict[str, Any]) -> str:
    """Return the page that shows `data`."""
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError("The report", "cli") from error
    from gpexperts import __version__

    folder = files("gpexperts.report")
    style, script = ((folder / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string((folder / "report.html.j2").read_text(encoding="utf-8"))
    text = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return template.render(
        data=data,
        headlines=headlines(data),
        alarms=alarms(data),
        version=__version__,
        style=_trusted(style),
        script=_trusted(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        # A column may have the name "</script>", which must not end the element.
        json=_trusted(text.replace("<", "\\u003c")),
    )


def _hash(text: str) -> Any:
    """The source in a Content-Security-Policy that allows this inline text and no other."""
    return _trusted(f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}")


def _trusted(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)  # files of this package, and JSON without "<"
