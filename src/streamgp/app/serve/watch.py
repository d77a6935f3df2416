"""What can be seen of a stream over HTTP: the page, its events, metrics, health. The same for a service and a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..report import short_kernel
from .metrics import Metrics, Watched
from .rows import Refusal

# Seconds between two events, and between two signs of life where nothing happens.
_TICK, _ALIVE = 0.25, 5.0
# Pages that are open at once.
_STREAMS = 32

_FILES = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
PUBLIC = frozenset({*_FILES, "/healthz", "/v2/health/live", "/v2/health/ready"})


@dataclass
class Watch:
    """What is watched, and by how many.

    Attributes
    ----------
    watched : Watched
    metrics : Metrics
    source : str
        Name of the model or of the input.
    failure : callable
        Returns why the stream stands still; empty where all is well.
    more : callable
        Returns what else the page and `GET /model` tell.
    closing : callable
        Returns whether the server is about to end.
    """

    watched: Watched
    metrics: Metrics
    source: str
    failure: Callable[[], str] = str
    more: Callable[[], dict[str, Any]] = dict
    closing: Callable[[], bool] = bool
    streams: int = field(default=0, init=False)

    def routes(self) -> list[Route]:
        """Return the routes of all that can be seen."""
        pages = [Route(path, _static(*named)) for path, named in _FILES.items()]
        return [
            *pages, Route("/events", self.events), Route("/metrics", self.scrape), Route("/healthz", self.health),
            Route("/model", self.model),
        ]  # fmt: skip

    async def scrape(self, request: Request) -> Response:
        """Answer with the metrics."""
        return Response(self.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def health(self, request: Request) -> Response:
        """Answer whether rows can be learned."""
        failure = self.failure()
        return JSONResponse({"status": "failing" if failure else "ok"}, 503 if failure else 200)

    async def model(self, request: Request) -> Response:
        """Answer with the state of the model."""
        return JSONResponse(self.described())

    def described(self) -> dict[str, Any]:
        """Return the state of the model and of the stream."""
        w, tally = self.watched, self.watched.tally
        said: dict[str, Any] = {
            "source": self.source, "targets": list(w.feed.targets), "level": w.level, "learned": tally.learned,
            "refused": tally.refused, "bad": tally.bad, "alarms": w.feed.alarmed, "failure": self.failure(),
            "pivots_exchanged": w.exchanged, **self.more(),
        }  # fmt: skip
        if w.fitted:
            gp = w.gp
            said["rows_learned"], said["rank"] = gp.n_samples_seen_, gp.rank_
            said["kernel"], said["method"] = short_kernel(gp.kernel_), gp.method
            said["noise"] = [float(v) for v in np.ravel(gp.noise_)]
            said["trace_error_share"] = float(gp.trace_error_share_)
            said["tuning_seconds"] = round(float(gp.tuning_seconds_), 3)
            said["members"] = {
                name: [round(float(v), 4) for v in np.ravel(w)] for name, w in gp.members_.items()
            }
        return said

    async def events(self, request: Request) -> Response:
        """Answer with a stream of events, beginning with rows after the number `after`."""
        after = request.query_params.get("after", "0")
        if not (after.isascii() and after.isdecimal() and len(after) < 16):
            raise Refusal(422, f"after={after[:60]!r} is not a number of rows", "leave it out")
        if self.streams >= _STREAMS:
            raise Refusal(503, f"{self.streams} pages are open", "close one")
        return _Events(self, int(after))

    def event(self, after: int) -> tuple[bytes, int]:
        """Return an event with the rows after a number, and the number of the last one."""
        told = self.watched.feed.told(after if after <= self.watched.feed.rows else 0)
        told["latency"], told["model"] = self.metrics.latencies(), self.described()
        return b"data: " + json.dumps(told, allow_nan=False).encode() + b"\n\n", told["rows"]

    def changes(self) -> tuple[Any, ...]:
        """Return what differs when there is something new to show."""
        w = self.watched
        return w.feed.rows, w.feed.alarmed, w.tally.rows, self.failure()


class _Events(Response):
    """Server-sent events until the client goes, or the server ends."""

    def __init__(self, watch: Watch, after: int) -> None:
        super().__init__(media_type="text/event-stream")
        self._watch, self._after = watch, after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del self.headers["content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        self._watch.streams += 1
        gone = asyncio.create_task(_gone(receive))
        try:
            await self._stream(send, gone)
        finally:
            self._watch.streams -= 1
            gone.cancel()

    async def _stream(self, send: Send, gone: asyncio.Task[None]) -> None:
        watch, shown, silent = self._watch, None, 0.0
        while not gone.done() and not watch.closing():
            if (changes := watch.changes()) != shown or silent >= _ALIVE:
                # Rows that come while the client is slow are in the next event: nothing piles up.
                body, self._after = watch.event(self._after)
                await send({"type": "http.response.body", "body": body, "more_body": True})
                shown, silent = changes, 0.0
            await asyncio.wait((gone,), timeout=_TICK)
            silent += _TICK
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _static(name: str, kind: str) -> Callable[[Request], Any]:
    """Return the endpoint of a file of the page, which is read here and at no request."""
    content = files(__package__).joinpath("page", name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer
