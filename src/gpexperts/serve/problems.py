"""Errors of a request, as RFC 9457 describes them."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from gpexperts.exceptions import MissingExtraError

try:
    from starlette.responses import Response
except ImportError as error:
    raise MissingExtraError("The service", "serve") from error

__all__ = ["Problem", "problem_response"]


class Problem(Exception):
    """A request that cannot be answered.

    Parameters
    ----------
    status : int
        The HTTP status.
    detail : str
        What was wrong, what was expected, and what to do next.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


def problem_response(status: int, detail: str, headers: Any = None) -> Response:
    """Return the response that describes a problem."""
    body = {"title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return Response(json.dumps(body), status, headers, media_type="application/problem+json")
