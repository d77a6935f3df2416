"""The routes of the service: predict, learn, and KServe's V2 protocol; what can be seen is in `watch`."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ... import __version__
from . import rows
from .gate import Gate
from .rows import Columns, RawRows, Refusal
from .service import NOTHING_LEARNED, Predicted, Service
from .tensors import inputs_of, rows_of_tensors
from .watch import PUBLIC, Watch
from .writer import Writer

# Rows that are predicted in the loop of events itself: a thread takes longer to begin than a few rows take.
_AT_ONCE = 32
_TIMED = frozenset({"/predict", "/learn"})


@dataclass(frozen=True)
class Limits:
    """What a request may hold: bytes, rows, columns."""

    body: int = 1 << 20
    rows: int = 1000
    columns: int = 1000


def application(
    service: Service, writer: Writer, watch: Watch, limits: Limits, *,
    hosts: tuple[str, ...] | None, token: str | None,
) -> ASGIApp:  # fmt: skip
    """Return the application that serves a model."""
    routes = _Routes(service, writer, watch, limits)
    paths = [
        Route("/predict", routes.predict, methods=["POST"]), Route("/learn", routes.learn, methods=["POST"]),
        Route("/v2", routes.server), Route("/v2/health/live", routes.live), Route("/v2/health/ready", routes.ready),
        Route("/v2/models/{name}", routes.metadata), Route("/v2/models/{name}/ready", routes.model_ready),
        Route("/v2/models/{name}/infer", routes.infer, methods=["POST"]),
    ]  # fmt: skip
    return gated([*paths, *watch.routes()], watch, hosts=hosts, token=token)


def gated(routes: list[Route], watch: Watch, *, hosts: tuple[str, ...] | None, token: str | None) -> ASGIApp:
    """Return an application with these routes behind the gate, whose errors are JSON."""
    handlers: dict[Any, Callable[[Request, Any], Awaitable[Response]]] = {
        Refusal: _refused, HTTPException: _http_error, ClientDisconnect: _disconnected, Exception: _fault,
    }  # fmt: skip
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Gate(app, watch.metrics, hosts, token, PUBLIC, _TIMED)


class Answer(JSONResponse):
    """JSON in ASCII: half of a surrogate pair, which a text of a request may hold, is nothing that UTF-8 can say."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of an answer."""
        return json.dumps(content, allow_nan=False).encode("ascii")


class _Routes:
    """The endpoints that read a body."""

    def __init__(self, service: Service, writer: Writer, watch: Watch, limits: Limits) -> None:
        self._service, self._writer, self._watch, self._limits = service, writer, watch, limits

    async def predict(self, request: Request) -> Response:
        """Predict rows; those with an id are kept until their labels come."""
        content = rows.parsed(await self._body(request))
        rows.only_keys(content, ("row", "rows", "id", "ids"))
        given = rows.rows_of(content, self._limits.rows)
        if given is None:
            raise Refusal(422, "no rows are given", 'send {"rows": [{"x": 1.5}, …]}')
        ids = rows.ids_of(content, len(given), self._limits.rows)
        raw = rows.raw_rows(given, self._columns())
        if ids is None:
            found = await self._predicted(raw)
        else:
            found = await run_in_threadpool(self._writer.predict, ids, raw)
            self._watch.metrics.predicted.inc(len(given))
        said, targets = found.said, self._service.columns.targets
        predictions = [
            {
                name: {part: _number(getattr(said, part)[i, j]) for part in ("mean", "std", "low", "high")}
                for j, name in enumerate(targets)
            }
            for i in range(len(given))
        ]
        return Answer(
            {"predictions": predictions, "level": self._service.level, "rows_learned": found.rows_learned}
        )

    async def learn(self, request: Request) -> Response:
        """Learn rows; the answer comes when they are learned and, with a log, on the disk."""
        content, limits = rows.parsed(await self._body(request)), self._limits
        wanted = rows.labelled(content, self._service.columns, limits.rows, limits.columns)
        done = await asyncio.wrap_future(self._writer.submit(wanted))
        return Answer(
            {
                "learned": done.learned, "duplicates": done.duplicates, "refused": done.refused,
                "rows_learned": done.rows_learned,
            }
        )  # fmt: skip

    async def infer(self, request: Request) -> Response:
        """Predict the rows of a tensor."""
        self._check_name(request)
        content = rows.parsed(await self._body(request))
        raw = rows_of_tensors(content, self._columns(), self._limits.rows)
        said = (await self._predicted(raw)).said
        shape = list(said.mean.shape)
        outputs = [
            {
                "name": part, "datatype": "FP64", "shape": shape,
                "data": [_number(v) for v in getattr(said, part).ravel()],
            }
            for part in ("mean", "std", "low", "high")
        ]  # fmt: skip
        named = {"id": content["id"]} if isinstance(content.get("id"), str) else {}
        return Answer({"model_name": self._watch.source, "outputs": outputs, **named})

    async def metadata(self, request: Request) -> Response:
        """Answer with the tensors that `infer` takes and returns."""
        self._check_name(request)
        q, inputs = len(self._service.columns.targets), inputs_of(self._columns())
        outputs = [
            {"name": part, "datatype": "FP64", "shape": [-1, q]} for part in ("mean", "std", "low", "high")
        ]
        return Answer(
            {
                "name": self._watch.source, "versions": [], "platform": "streamgp",
                "inputs": inputs, "outputs": outputs,
            }
        )  # fmt: skip

    async def server(self, request: Request) -> Response:
        """Answer with the name of the server."""
        return Answer({"name": "streamgp", "version": __version__, "extensions": []})

    async def live(self, request: Request) -> Response:
        """Answer that the server lives."""
        return Answer({"live": True})

    async def ready(self, request: Request) -> Response:
        """Answer whether there is a model that can predict."""
        ready = self._service.fitted
        return Answer({"ready": ready}, 200 if ready else 409)

    async def model_ready(self, request: Request) -> Response:
        """Answer whether the model can predict."""
        self._check_name(request)
        return await self.ready(request)

    def _check_name(self, request: Request) -> None:
        if request.path_params["name"] != self._watch.source:
            raise Refusal(404, "there is no model of that name", f"the model is called {self._watch.source}")

    def _columns(self) -> Columns:
        if not self._service.fitted:
            raise NOTHING_LEARNED
        return self._service.columns

    async def _predicted(self, raw: RawRows) -> Predicted:
        X = self._service.arrivals.features_of(raw)
        if X.shape[0] <= _AT_ONCE:
            found = self._service.predict(X)
        else:
            found = await run_in_threadpool(self._service.predict, X)
        self._watch.metrics.predicted.inc(X.shape[0])
        return found

    async def _body(self, request: Request) -> bytes:
        """Return the body of a request, JSON of limited length."""
        # A page of another site can send forms and text without asking; for JSON a browser asks, and is told no.
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal(
                415, "the body is not declared as JSON", "send the header Content-Type: application/json"
            )
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self._limits.body:
                raise Refusal(
                    413, f"the body has more than {self._limits.body:,} bytes", "send several requests"
                )
            parts.append(part)
        return b"".join(parts)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


async def _refused(request: Request, error: Refusal) -> Response:
    # What is left of a body that was refused is not read.
    headers = {"Connection": "close"} if error.status in (413, 415) else None
    if error.status == 503:
        headers = {"Retry-After": "1"}
    return Answer(error.content, error.status, headers)


async def _http_error(request: Request, error: HTTPException) -> Response:
    remedy = "look at the documentation of the routes"
    if error.headers and "Allow" in error.headers:
        remedy = f"use {error.headers['Allow']}"
    return Answer({"error": error.detail, "remedy": remedy}, error.status_code, error.headers)


async def _disconnected(request: Request, error: ClientDisconnect) -> Response:
    return Response(status_code=400)


async def _fault(request: Request, error: Exception) -> Response:
    return Answer({"error": "a fault of the server; its log says more", "remedy": "report it"}, 500)
