"""A connection that may be lost: when to try again, and what to say meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

# Seconds before the first and between the last attempts to connect again; each wait is twice the one before.
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 15.0
# Seconds between two messages that a broker is still away.
_REMINDER = 60.0

Say = Callable[[str], None]


class Link:
    """State of the connection to one address."""

    def __init__(self, address: object, say: Say) -> None:
        self.address, self.say = address, say
        self.lost_at: float | None = None
        self.retry_at = 0.0
        self._wait, self._reminded = _FIRST_WAIT, 0.0

    @property
    def seconds_to_wait(self) -> float:
        """Seconds until the next attempt."""
        return max(0.0, self.retry_at - time.monotonic())

    def lost(self, reason: object) -> None:
        """Note a failure: say so, and wait longer after each one."""
        now = time.monotonic()
        if self.lost_at is None:
            self.lost_at = self._reminded = now
            self.say(f"{self.address}: connection lost ({reason}); waiting for it")
        elif now - self._reminded > _REMINDER:
            self._reminded = now
            self.say(f"{self.address}: still away after {now - self.lost_at:,.0f} s ({reason})")
        self.retry_at = now + self._wait
        self._wait = min(2 * self._wait, _LONGEST_WAIT)

    def found(self) -> None:
        """Note that the connection stands."""
        if self.lost_at is not None:
            self.say(f"{self.address}: connected again after {time.monotonic() - self.lost_at:.1f} s")
        self.lost_at, self._wait = None, _FIRST_WAIT
