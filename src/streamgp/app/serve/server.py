"""A server on a socket that is bound before anything else: with the main thread, or beside a run."""

from __future__ import annotations

import socket
import threading
import time

from starlette.types import ASGIApp
from uvicorn import Config, Server

from ...errors import DataError
from .gate import LOOPBACK, PatientProtocol

# Connections at a time; more are told to come again.
_CONNECTIONS = 256
# Seconds that requests have to end in when the server stops.
_GRACE = 10


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a host and a port, 0 for any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_CONNECTIONS)
    except OSError as error:
        raise DataError(
            f"{host}:{port} cannot be listened on: {error.strerror}; choose another --port"
        ) from error


def address(listening: socket.socket) -> str:
    """Return the address of a listening socket, for a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine alone."""
    return host in LOOPBACK or host.startswith("127.")


def server_of(app: ASGIApp) -> Server:
    """Return a server of an application."""
    return Server(
        Config(
            app, http=PatientProtocol, ws="none", lifespan="off", loop="asyncio", log_level="warning",
            access_log=False, server_header=False, limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE,
        )
    )  # fmt: skip


class BesideServer:
    """A server in a thread, beside a run."""

    def __init__(self, app: ASGIApp, listening: socket.socket) -> None:
        self._server, self.address = server_of(app), address(listening)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name="page", daemon=True
        )

    @property
    def closing(self) -> bool:
        """Whether the server is about to end."""
        return self._server.should_exit

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()
        while self._thread.is_alive() and not self._server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        """End."""
        self._server.should_exit = True
        self._thread.join()
