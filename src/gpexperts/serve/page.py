"""The page with one control per input."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from gpexperts.serve.inputs import Inputs

__all__ = ["page"]


def page(inputs: Inputs, target: str, span: tuple[float, float], table: Any, version: str) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    inputs : Inputs
    target : str
        Name of the target.
    span : tuple of float
        The range of the target that the bar of a prediction shows at least.
    table : TableSchema or None
        The table that the model was fitted on.
    version : str
        Of gpexperts.
    """
    folder = files("gpexperts.serve")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string((folder / "page.html.j2").read_text(encoding="utf-8"))
    data = {"target": target, "span": span, "inputs": [asdict(member) for member in inputs.members]}
    return template.render(
        target=target,
        table=table,
        version=version,
        style=Markup((folder / "page.css").read_text(encoding="utf-8")),
        script=Markup((folder / "page.js").read_text(encoding="utf-8")),
        # A column may have the name "</script>", which must not end the element.
        json=Markup(json.dumps(data).replace("<", "\\u003c")),
    )
