"""``streamgp serve`` in a process of its own, for experiments: started, asked, killed."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


class ServeProcess:
    """A service of a model file with the options given; `port` 0 is replaced by the one it got."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path, self.options, self.port = path, options, 0
        self.start()

    def start(self) -> None:
        """Start it, and return when it listens."""
        command = [sys.executable, "-m", "streamgp", "serve", str(self.path), "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, *self.options],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        if "http://" not in line:
            raise RuntimeError(line + self.process.stderr.read())
        self.port = int(line.partition(" at ")[2].partition(";")[0].rpartition(":")[2])

    def kill(self) -> None:
        """End it by kill -9."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """End it by SIGTERM, and return its status."""
        self.process.terminate()
        return self.process.wait()

    def resident(self) -> float:
        """Return its memory in MB."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1000
        return 0.0


class Client:
    """A connection that is kept open; raises OSError when the server is away."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def post(self, path: str, content: Any) -> tuple[int, Any]:
        """Send JSON and return status and answer."""
        try:
            self.connection.request("POST", path, json.dumps(content), {"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (http.client.HTTPException, OSError) as error:
            self.connection.close()
            raise OSError(str(error)) from error
