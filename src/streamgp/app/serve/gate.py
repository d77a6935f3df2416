"""What stands before the application: host and token, headers, connections that are slow or half open."""

from __future__ import annotations

import asyncio
import hmac
import time
from typing import Any

import h11
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from .metrics import Metrics

LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Seconds in which a request must have come whole, and in which a client must take something of what it is sent.
PATIENCE = 10.0

_HEADERS = [
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
     b"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]  # fmt: skip


class Gate:
    """Lets requests through to an application.

    Parameters
    ----------
    app
    metrics : Metrics
    hosts : tuple of str or None
        Names by which the server may be called; None for any. Without it, a page on the internet could reach a server
        on loopback by a name of its own that it lets point there.
    token : str or None
        What the header `Authorization: Bearer …` must hold, but for `public` paths.
    public, timed : frozenset of str
        Paths without a token, and those whose times are measured; others are counted together.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, hosts: tuple[str, ...] | None, token: str | None,
        public: frozenset[str], timed: frozenset[str],
    ) -> None:  # fmt: skip
        self._app, self._metrics, self._hosts = app, metrics, hosts
        self._token = None if token is None else f"Bearer {token}".encode()
        self._public, self._timed = public, timed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, path = time.perf_counter(), 0, scope["path"]

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            await (self._refusal(scope) or self._app)(scope, receive, sent)
        finally:
            route = path if path in self._timed else "other"
            self._metrics.requests.labels(route, str(status)).inc()
            if status == 200 and route != "other":
                self._metrics.timed(route, time.perf_counter() - began)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = dict(scope["headers"])
        if self._hosts is not None and _host(headers.get(b"host", b"")) not in self._hosts:
            return _error(421, "this server does not have that name", "call it by localhost or 127.0.0.1")
        given = headers.get(b"authorization", b"")
        asked = self._token is not None and scope["path"] not in self._public
        if asked and not hmac.compare_digest(given, self._token or b""):
            return _error(401, "the token is missing or wrong", "send the header Authorization: Bearer TOKEN")
        return None


def _host(value: bytes) -> str:
    """Return the name of a Host header, without the port."""
    text = value.decode("latin-1").lower()
    return text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]


def _error(status: int, error: str, remedy: str) -> ASGIApp:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": error, "remedy": remedy}, status, headers)


class PatientProtocol(H11Protocol):
    """HTTP that ends connections which are slow to ask or to take the answer, so that they are in nobody's way."""

    _asking: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Expect a request."""
        super().connection_made(transport)
        self._asking = self.loop.call_later(PATIENCE, transport.abort)

    def data_received(self, data: bytes) -> None:
        """Expect the rest of a request that has begun."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._asking = self._asking or self.loop.call_later(PATIENCE, self.transport.abort)
        elif self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def pause_writing(self) -> None:
        """Expect the client to take what waits for it."""
        super().pause_writing()
        self._taking = self.loop.call_later(PATIENCE, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on."""
        super().resume_writing()
        if self._taking is not None:
            self._taking.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        super().connection_lost(exc)
        for timer in (self._asking, self._taking):
            if timer is not None:
                timer.cancel()
