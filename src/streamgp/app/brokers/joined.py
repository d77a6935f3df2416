"""Topics with one value each, such as those of sensors, joined into rows of the values that were last known."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from .lines import Source

# The message that stands for a clock.
TICK = b"{}"


def value_message(topics: str, topic: str, payload: bytes, *, retained: bool) -> bytes:
    """Return a message with the name of a value, which is what the wildcards in `topics` stand for, and the value."""
    name = _name(topics.split("/"), topic.split("/"))
    return json.dumps({"name": name, "value": _value(payload), "retained": retained}).encode()


def _name(pattern: Sequence[str], levels: Sequence[str]) -> str:
    found = [level for part, level in zip(pattern, levels, strict=False) if part == "+"]
    if pattern[-1] == "#":
        found += levels[len(pattern) - 1 :]
    return "/".join(found)


def _value(payload: bytes) -> Any:
    """Return the number or text of a payload, that of "value" in an object; None for anything else, and for null."""
    text = payload.decode("utf-8", "replace").strip()
    try:
        found = json.loads(text)
    except (RecursionError, ValueError):
        return text
    if isinstance(found, dict):
        found = found.get("value")
    return found if isinstance(found, str | int | float | bool) else None


class Joined:
    """A source of rows from one of single values.

    A row is made when the value `at` comes, or at ticks if something new came since the last. It holds the last known
    value of each name; one of a target is in one row only. What is known is part of the mark, so that a run goes on
    with it.

    Parameters
    ----------
    source : Source
        Of messages that `value_message` made, and of ticks.
    names, targets : tuple of str
        Values that make up a row, and which of them are labels; others are left out.
    at : str or None
        None where ticks make rows.
    """

    def __init__(self, source: Source, names: Sequence[str], targets: Sequence[str], at: str | None) -> None:
        self._source, self._names, self._targets, self._at = source, frozenset(names), frozenset(targets), at
        self._known: dict[str, Any] = {}
        self._new, self._left_out = False, set[str]()

    def start(self, mark: str) -> None:
        """Connect, and continue after the row at `mark` (empty: with the first value that is unread)."""
        before, self._known = json.loads(mark) if mark else ("", {})
        self._source.start(before)

    def next(self, timeout: float) -> tuple[str, bytes] | None:
        """Return the mark and the next row, or None if none comes for so many seconds."""
        until = time.monotonic() + timeout
        while (message := self._source.next(max(until - time.monotonic(), 0.0))) is not None:
            if self._taken(json.loads(message[1])):
                row = json.dumps(self._known).encode()
                self._known = {name: v for name, v in self._known.items() if name not in self._targets}
                self._new = False
                return json.dumps([message[0], self._known]), row
        return None

    def _taken(self, content: dict[str, Any]) -> bool:
        """Take a message over; return whether it makes a row."""
        if not content:
            return self._at is None and self._new
        name, retained = content["name"], content["retained"]
        if name not in self._names:
            self._left_out |= {name} if len(self._left_out) < 100 else set()
        elif not (
            retained and name in self._targets
        ):  # the broker repeats it at each connection: no new label
            self._known[name] = content["value"]
            self._new = True
        return name == self._at and not retained

    def saved(self, mark: str) -> None:
        """Let go of values up to `mark`: a checkpoint holds what they taught."""
        self._source.saved(json.loads(mark)[0] if mark else "")

    def close(self) -> None:
        """Disconnect."""
        self._source.close()

    @property
    def remarks(self) -> Sequence[str]:
        """What the summary of a run should tell."""
        named = ", ".join(sorted(self._left_out)[:10])
        said = [f"values that no column has the name of were left out: {named}"] if named else []
        return [*said, *self._source.remarks]
