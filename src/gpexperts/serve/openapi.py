"""The OpenAPI description of the service, made from the inputs of the model."""

from __future__ import annotations

from typing import Any

from gpexperts.serve.bodies import ARROW, JSON, Limits
from gpexperts.serve.inputs import LARGEST, Input, Inputs

__all__ = ["description"]

_NUMBER = {"type": "number"}
_TEXT = {"type": "string"}
_MAYBE_NUMBER = {"type": ["number", "null"]}
_REASONS = {
    400: "The body is neither JSON nor Arrow, or the host name is not allowed.",
    408: "The request arrived too slowly.",
    413: "The request has too many bytes or rows.",
    415: "The content type is not supported.",
    422: "The rows do not fit the model.",
    429: "Too many rows are waiting.",
}


def description(inputs: Inputs, target: str, limits: Limits, version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description.

    Parameters
    ----------
    inputs : Inputs
    target : str
        Name of the target.
    limits : Limits
    version : str
        Of gpexperts.
    """
    prediction = _object(dict.fromkeys(("mean", "std", "lower", "upper"), _NUMBER))
    predictions = _object(
        {"target": _TEXT, "level": _NUMBER, "predictions": {"type": "array", "items": prediction}}
    )
    binary = {ARROW: {"schema": {"type": "string", "format": "binary"}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"Predictions of {target}",
            "version": version,
            "description": "Means, standard deviations and intervals of a new observation.",
        },
        "paths": {
            "/predict": {
                "post": _operation(
                    "predict",
                    "Predict rows",
                    {**_rows_body(inputs, limits.rows), **binary},
                    {JSON: {"schema": predictions}, **binary},
                )
            },
            "/explain": {
                "post": _operation(
                    "explain",
                    "Predict rows, with the training rows and experts that the predictions rest on",
                    _rows_body(inputs, limits.explained_rows),
                    {JSON: {"schema": _explanations()}},
                )
            },
            "/health": {
                "get": _get("health", "Whether the service is ready", JSON, _object({"status": _TEXT}))
            },
            "/metrics": {
                "get": _get("metrics", "Counters, in the format of Prometheus", "text/plain", _TEXT)
            },
            "/openapi.json": {
                "get": _get("describe", "This description", JSON, {"type": "object"}),
            },
        },
        "components": {
            "schemas": {"Problem": _object({"title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT})}
        },
    }


def _operation(name: str, summary: str, body: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    level = {
        "name": "level",
        "in": "query",
        "description": "Probability of the interval from lower to upper.",
        "schema": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.95},
    }
    return {
        "operationId": name,
        "summary": summary,
        "parameters": [level],
        "requestBody": {"required": True, "content": body},
        "responses": {"200": {"description": "Predictions", "content": result}} | _problems(_REASONS),
    }


def _get(name: str, summary: str, kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    found = {"description": summary, "content": {kind: {"schema": schema}}}
    refused = _problems({400: "The host name is not allowed."})
    return {"operationId": name, "summary": summary, "responses": {"200": found} | refused}


def _problems(reasons: dict[int, str]) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {str(status): {"description": text, "content": content} for status, text in reasons.items()}


def _rows_body(inputs: Inputs, most: int) -> dict[str, Any]:
    row = {
        "type": "object",
        "required": inputs.names,
        "properties": {member.name: _schema(member, inputs.gaps) for member in inputs.members},
        "description": "One value per input; other names are ignored.",
    }
    rows = {"type": "array", "items": row, "minItems": 1, "maxItems": most}
    schema = {"type": "object", "required": ["rows"], "properties": {"rows": rows}}
    example = {"rows": [inputs.example]}
    return {JSON: {"schema": schema, "example": example}}


def _schema(member: Input, gaps: bool) -> dict[str, Any]:
    kind = {"number": "number", "boolean": "boolean"}.get(member.kind, "string")
    schema: dict[str, Any] = {"type": [kind, "null"] if gaps else kind}
    if member.kind == "category":
        return {**schema, "description": f"In training: {', '.join(member.levels[:20])}."}
    if member.low is not None:
        schema["description"] = f"In training from {member.low} to {member.high}."
    if member.kind == "number":
        schema |= {"minimum": -LARGEST, "maximum": LARGEST}
    if member.kind == "date":
        if member.zone:
            schema["format"] = "date-time"
        else:
            schema["pattern"] = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?$"
    return schema


def _explanations() -> dict[str, Any]:
    row = _object(
        {"row": {"type": "integer"}, "inputs": {"type": "array"}, "target": _NUMBER, "weight": _MAYBE_NUMBER}
    )
    expert = _object({"name": _TEXT, "weight": _NUMBER, "mean": _NUMBER, "latent_std": _MAYBE_NUMBER})
    one = _object(
        {
            **dict.fromkeys(("mean", "std", "lower", "upper"), _NUMBER),
            "outside": {"type": "array", "items": _TEXT, "description": "Inputs outside the training range."},
            "rows": {
                "type": "array",
                "items": row,
                "description": "Training rows with the largest weights; the nearest ones, without weights, "
                "if the model has no expert of the query's own. Numbered from 1.",
            },
            "experts": {
                "type": "array",
                "items": expert,
                "description": "The sum of weight times mean is the mean, unless the target is transformed.",
            },
        }
    )
    return _object(
        {
            "target": _TEXT,
            "level": _NUMBER,
            "inputs": {"type": "array", "items": _TEXT},
            "explanations": {"type": "array", "items": one},
        }
    )


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}
