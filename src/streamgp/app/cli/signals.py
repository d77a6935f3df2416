"""Stopping on Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# Exit status of a command that was interrupted, as shells count it for SIGINT.
INTERRUPTED = 130


class Stop:
    """Request to stop: the first Ctrl-C or SIGTERM makes it, and calls `then`; the second ends the process at once."""

    def __init__(self, then: Callable[[], None] | None = None) -> None:
        self.requested, self._then = False, then

    def __call__(self) -> bool:
        """Return whether to stop."""
        return self.requested

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            sys.exit(INTERRUPTED)
        self.requested = True
        if self._then is not None:
            self._then()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Catch the signals within the context."""
        try:
            before = {n: signal.signal(n, self._catch) for n in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
