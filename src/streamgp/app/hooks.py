"""Tell others about an alarm: a command or an address, without letting the run wait or fail."""

from __future__ import annotations

import json
import subprocess
import threading
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field

# Seconds until a hook is given up, and hooks that may run at once: more are not started.
PATIENCE, AT_ONCE = 10.0, 20


@dataclass
class Hook:
    """Sends texts to a command's standard input or, by POST, to an http address; each in a thread.

    Attributes
    ----------
    where : str
        A command line for the shell, or an address that begins with http:// or https://.
    on_failure : callable
        Is told what went wrong.
    """

    where: str
    on_failure: Callable[[str], None]
    running: list[threading.Thread] = field(default_factory=list)

    def send(self, content: dict[str, object]) -> None:
        """Send content as one line of JSON."""
        self.running = [thread for thread in self.running if thread.is_alive()]
        if len(self.running) >= AT_ONCE:
            self.on_failure(f"alarm hook not started: {AT_ONCE} are still running")
            return
        thread = threading.Thread(
            target=self._send, args=((json.dumps(content) + "\n").encode(),), daemon=True
        )
        self.running.append(thread)
        thread.start()

    def wait(self) -> None:
        """Wait for the hooks that still run, each until it is given up at the latest."""
        for thread in self.running:
            thread.join(PATIENCE + 1)

    def _send(self, data: bytes) -> None:
        try:
            if self.where.startswith(("http://", "https://")):
                head = {"Content-Type": "application/json"}
                request = urllib.request.Request(self.where, data, head, method="POST")
                urllib.request.urlopen(request, timeout=PATIENCE).close()
            else:
                subprocess.run(
                    self.where,
                    shell=True,
                    input=data,
                    timeout=PATIENCE,
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.on_failure(f"alarm hook failed: {error}")
