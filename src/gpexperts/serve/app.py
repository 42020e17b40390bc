"""The application: routes, errors and counters."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import prometheus_client as prometheus
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from gpexperts import inspection
from gpexperts.engines.threads import blas_threads
from gpexperts.exceptions import TooFewRowsError
from gpexperts.serve.batching import Batcher
from gpexperts.serve.bodies import ARROW, JSON, Limits, level_of, read_rows, written
from gpexperts.serve.explanations import Explainer
from gpexperts.serve.inputs import Inputs
from gpexperts.serve.openapi import description
from gpexperts.serve.page import page
from gpexperts.serve.policy import security_policy
from gpexperts.serve.problems import Problem, problem_response

__all__ = ["Limits", "create_app"]

_SECURITY = {
    "content-security-policy": security_policy(),
    "x-content-type-options": "nosniff",
}
_LEVELS = 100
"""Levels of intervals whose widths are kept: they take longer to compute than a request may."""
_SPAN = (0.01, 0.99)
"""Quantiles of the training targets between which the page shows a prediction."""
Handler = Callable[[Request], Awaitable[Response]]


class _Service:
    """The handlers of the routes, and what they share."""

    def __init__(self, model: Any, target: str | None, limits: Limits, hosts: Sequence[str]) -> None:
        from gpexperts import __version__

        inspection.single_output(model, "The service")
        self.model, self.limits = model, limits
        self.hosts = [host.lower() for host in hosts]
        table = getattr(model, "table_", None)
        self.target = target or ("target" if table is None else str(table.target))
        self.inputs = Inputs(model)
        self.registry = prometheus.CollectorRegistry()
        self.requests = prometheus.Counter(
            "gpexperts_requests", "Requests by path and status.", ["path", "status"], registry=self.registry
        )
        self.seconds = prometheus.Histogram(
            "gpexperts_request_seconds", "Time of requests by path.", ["path"], registry=self.registry,
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
        )  # fmt: skip
        batches = prometheus.Histogram(
            "gpexperts_batch_rows", "Rows that were predicted together.", registry=self.registry,
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
        )  # fmt: skip
        self._widths: dict[float, Any] = {}
        self.batcher = Batcher(self._predict, limits.waiting_rows, batches.observe)
        self.openapi = description(self.inputs, self.target, limits, __version__)
        low, high = np.quantile(inspection.training_targets(model), _SPAN).tolist()
        self.page = page(self.inputs, self.target, (low, high), table, __version__)
        self.explainer = Explainer(model, self.inputs)
        self.explainer(self.inputs.encode([self.inputs.example]), 0.5)  # warm up

    def _predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, std = self.model.predictor_.predict(X, return_std=True, latent=False)
        return mean[:, 0], std[:, 0]

    async def predict(self, request: Request) -> Response:
        X = await read_rows(request, self.inputs, self.limits, self.limits.rows, (JSON, ARROW))
        level = level_of(request)
        widths = self.widths(level)
        mean, std = await self.batcher(X)
        if self.model.model_.target is None:
            half = widths(std) * std
            lower, upper = mean - half, mean + half
        else:  # the intervals of a transformed target are not symmetric
            ends = await self.batcher.run(lambda: self.model.predictor_.interval(X, level))
            lower, upper = ends[1][:, 0], ends[2][:, 0]
        columns = {"mean": mean, "std": std, "lower": lower, "upper": upper}
        return written(request, columns, self.target, level)

    def widths(self, level: float) -> Any:
        """Half the widths of intervals in units of std, as a function of it."""
        found = self._widths.get(level)
        if found is None:
            try:
                found = self.model.predictor_.interval_widths(level)
            except TooFewRowsError as error:
                raise Problem(422, str(error)) from error
            if len(self._widths) < _LEVELS:
                self._widths[level] = found
        return found

    async def explain(self, request: Request) -> Response:
        X = await read_rows(request, self.inputs, self.limits, self.limits.explained_rows, (JSON,))
        level = level_of(request)
        self.widths(level)
        explanations = await self.batcher.run(lambda: self.explainer(X, level))
        return JSONResponse(
            {
                "target": self.target,
                "level": level,
                "inputs": self.inputs.names,
                "explanations": explanations,
            }
        )

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        return Response(prometheus.generate_latest(self.registry), media_type="text/plain; version=0.0.4")

    async def describe(self, request: Request) -> Response:
        return JSONResponse(self.openapi)

    async def show(self, request: Request) -> Response:
        return HTMLResponse(self.page, headers=_SECURITY)

    def watched(self, path: str, handler: Handler) -> Handler:
        """Check the host of a request, turn problems into responses, and count."""
        seconds = self.seconds.labels(path)

        async def watching(request: Request) -> Response:
            began = time.perf_counter()
            status = 500
            try:
                # A page of another site must not reach the service under a name that it resolves to it.
                if self.hosts and (host := _host(request)) not in self.hosts:
                    known = ", ".join(self.hosts)
                    raise Problem(400, f"The host {host!r} is not allowed; allowed are {known}.")
                response = await handler(request)
                status = response.status_code
            except Problem as problem:
                status = problem.status
                response = problem_response(status, problem.detail, _retry(status))
            finally:
                self.requests.labels(path, status).inc()
                seconds.observe(time.perf_counter() - began)
            return response

        return watching


def create_app(
    model: Any, *, target: str | None = None, limits: Limits | None = None, hosts: Sequence[str] = ()
) -> Any:
    """Return the service of a model as an ASGI application.

    Parameters
    ----------
    model : DistributedGPRegressor
        Fitted to one target.
    target : str, optional
        Name of the target; by default that of the training table.
    limits : Limits, optional
    hosts : sequence of str
        Names under which the service may be addressed; empty for any.

    Returns
    -------
    starlette.applications.Starlette
    """
    service = _Service(model, target, limits or Limits(), hosts)
    handlers: list[tuple[str, str, Handler]] = [
        ("/", "GET", service.show),
        ("/predict", "POST", service.predict),
        ("/explain", "POST", service.explain),
        ("/health", "GET", service.health),
        ("/metrics", "GET", service.metrics),
        ("/openapi.json", "GET", service.describe),
    ]
    routes = [
        Route(path, service.watched(path, handler), methods=[method]) for path, method, handler in handlers
    ]

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        # Held throughout, so that it need not be set for every batch.
        with blas_threads(1):
            yield
        service.batcher.close()

    return Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_problem, Exception: _unexpected},
    )


def _host(request: Request) -> str:
    """The name under which a request addresses the service, without the port."""
    header = request.headers.get("host")
    return _hostname(header) if header is not None else str((request.scope.get("server") or ("",))[0])


@lru_cache(maxsize=64)
def _hostname(header: str) -> str:
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:  # such as "["
        return ""


def _retry(status: int) -> dict[str, str] | None:
    return {"retry-after": "1"} if status == 429 else None


async def _http_problem(request: Request, error: Any) -> Response:
    detail = f"{request.method} {request.url.path} is not part of this service; see /openapi.json."
    return problem_response(error.status_code, detail, error.headers)


async def _unexpected(request: Request, error: Exception) -> Response:
    return problem_response(500, f"unexpected {type(error).__name__}; the log of the service shows where.")
