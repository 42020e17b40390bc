"""A local service for one model: predictions over HTTP, and a page on which inputs can be varied.

`inputs`
    the inputs of the model as a caller sees them, and rows of a request as numbers;
`bodies`
    reads requests and writes responses, as JSON or Arrow;
`batching`
    requests that arrive together are predicted together;
`explanations`
    what the page shows of one prediction;
`openapi`
    the description of the service;
`app`
    the routes; `page` is the page, `run` starts the service.

Needs the extra [serve].
"""

from gpexperts.exceptions import MissingExtraError

try:
    import jinja2  # noqa: F401
    import prometheus_client  # noqa: F401
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    raise MissingExtraError("The service", "serve") from error

from gpexperts.serve.app import Limits, create_app

__all__ = ["Limits", "create_app"]
