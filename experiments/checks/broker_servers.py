"""mosquitto and redis-server on a free port of this machine, which keep what they acknowledged through a kill −9."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

_MOSQUITTO = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence true
persistence_location {folder}/
autosave_interval 1
autosave_on_changes true
{user}
{more}
"""


def program(name: str) -> str | None:
    """Return the path of a server, which Debian may keep outside the search path of users."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A process that can be killed and started again with what it kept on the disk."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder, self.port = folder, port or free_port()
        folder.mkdir(exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def command(self) -> list[str]:
        """Return the command that starts the server."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the server and wait until it listens."""
        with open(self.folder / "log.txt", "ab") as log:
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=log)
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"{self.command()} did not start: {(self.folder / 'log.txt').read_text()[-2000:]}")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End the process by a signal."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait()

    def close(self) -> None:
        """End the process if it runs."""
        if self._process is not None and self._process.poll() is None:
            self.kill()


class Mosquitto(Server):
    """A broker of MQTT that writes its state after each message; `more` are lines of its configuration."""

    scheme = "mqtt"

    def __init__(self, folder: Path, port: int | None = None, more: str = "") -> None:
        self.more = more
        super().__init__(folder, port)

    def command(self) -> list[str]:
        """Return the command that starts the broker."""
        path = self.folder / "mosquitto.conf"
        # A broker that root starts would change to a user who may not write here.
        user = "user root" if os.geteuid() == 0 else ""
        path.write_text(_MOSQUITTO.format(port=self.port, folder=self.folder, user=user, more=self.more))
        return [program("mosquitto") or "mosquitto", "-c", str(path)]


class Redis(Server):
    """A Redis that syncs each command before it answers; `more` are further arguments."""

    scheme = "redis"

    def __init__(self, folder: Path, port: int | None = None, more: tuple[str, ...] = ()) -> None:
        self.more = more
        super().__init__(folder, port)

    def command(self) -> list[str]:
        """Return the command that starts the server."""
        return [
            program("redis-server") or "redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir",
            str(self.folder), "--save", "", "--appendonly", "yes", "--appendfsync", "always", *self.more,
        ]  # fmt: skip
