"""Messages as lines of JSON, with what a checkpoint needs to continue after any of them."""

from __future__ import annotations

import json
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

# Seconds after which a silent source lets the run look whether to stop.
_POLL = 0.2
# Ids that are remembered, to recognise rows that come again.
_IDS = 10_000
# Rows of which the id is kept until they are answered.
_ANSWERED = 100_000
_LARGEST_MESSAGE = 1 << 24


class Source(Protocol):
    """Messages of a broker, in their order. A mark is a text that stands for a message."""

    @property
    def remarks(self) -> Sequence[str]:
        """What the summary of a run should tell."""

    def start(self, mark: str) -> None:
        """Connect, and continue after the message at `mark` (empty: with the first one that is unread)."""

    def next(self, timeout: float) -> tuple[str, bytes] | None:
        """Return the mark and the payload of the next message, or None if none comes for so many seconds."""

    def saved(self, mark: str) -> None:
        """Let go of messages up to `mark`: a checkpoint holds what they taught."""

    def close(self) -> None:
        """Disconnect."""


class Place(NamedTuple):
    """After a row: its number, the mark of the last message that is read whole, and the rows read of the next one."""

    line: int
    mark: str
    rows: int


@dataclass(frozen=True)
class Identity:
    """How rows are recognised that come again: the name of their id, and of the labels.

    A row without label and the same row with it are two: one is predicted, the other learned.
    """

    name: str
    targets: Sequence[str]

    def of(self, line: bytes) -> tuple[Any, str] | None:
        """Return the id of a row, and the text that stands for it; None if it has none."""
        try:
            row = json.loads(line)
            identity = row[self.name]
        except (KeyError, RecursionError, TypeError, ValueError):
            return None
        labelled = all(row.get(target) is not None for target in self.targets)
        return identity, json.dumps(identity) + ("" if labelled else " unlabelled")


class MessageLines:
    """Lines for a reader of JSON lines; iterating yields None when a batch should not wait any longer.

    Parameters
    ----------
    source : Source
    identity : Identity or None
    eager : bool
        Whether a row does not wait for others, however far the deadline.
    should_stop : callable
    state : dict, optional
        What `state` returned when the run was saved.
    line : int
        Number of the last line before.
    """

    size = None
    omitted = 0
    deadline: float | None = None

    def __init__(
        self, source: Source, identity: Identity | None, eager: bool, should_stop: Callable[[], bool],
        state: dict[str, Any] | None = None, line: int = 0,
    ) -> None:  # fmt: skip
        self.source, self.identity, self.eager, self.should_stop = source, identity, eager, should_stop
        state = state or {"mark": "", "rows": 0, "ids": ()}
        self._place = Place(line, state["mark"], state["rows"])
        self._skip = state["rows"]
        # Places after the last one that was saved.
        self._places: deque[Place] = deque()
        self._seen: OrderedDict[str, int] = OrderedDict((key, line) for key in state["ids"])
        self._ids: OrderedDict[int, Any] = OrderedDict()
        self._line, self._mark = line, state["mark"]
        self.repeated = 0
        source.start(state["mark"])

    def seek(self, offset: int) -> bool:
        """Return True: the source continues where the run was saved."""
        return True

    def __iter__(self) -> Iterator[bytes | None]:
        while True:
            message = self.source.next(min(self._seconds_left(), _POLL))
            if message is not None:
                yield from self._new_rows(*message)
            elif self._seconds_left() in (0.0, math.inf) or self.should_stop():
                yield None

    def _seconds_left(self) -> float:
        """Return how long the rows that have come may wait; infinity if there are none."""
        if self.deadline is None:
            return math.inf
        return 0.0 if self.eager else max(self.deadline - time.monotonic(), 0.0)

    def _new_rows(self, mark: str, payload: bytes) -> Iterator[bytes]:
        """Yield the rows of a message that are new."""
        rows, skip = rows_of(payload), self._skip
        self._skip = 0
        for i, row in enumerate(rows[skip:], skip + 1):
            known = self.identity and self.identity.of(row)
            if known and known[1] in self._seen:
                self.repeated += 1
                continue
            self._line += 1
            whole = i == len(rows)
            self._places.append(Place(self._line, mark if whole else self._mark, 0 if whole else i))
            if known:
                _remember(self._seen, known[1], self._line, _IDS)
                _remember(self._ids, self._line, known[0], _ANSWERED)
            yield row
        self._mark = mark

    def id_of(self, line: int) -> Any:
        """Return what identifies a row, None if nothing does."""
        return self._ids.get(line)

    def state(self, line: int) -> dict[str, Any]:
        """Return what is needed to continue after that line."""
        while self._places and self._places[0].line <= line:
            self._place = self._places.popleft()
        ids = tuple(key for key, last in self._seen.items() if last <= line)
        return {"mark": self._place.mark, "rows": self._place.rows, "ids": ids}

    def saved(self) -> None:
        """Tell the source that what `state` returned is on the disk."""
        self.source.saved(self._place.mark)

    @property
    def remarks(self) -> Sequence[str]:
        """What the summary of a run should tell."""
        repeated = f"{self.repeated:,} rows came again, with an id that was read before, and were left out"
        return [*([repeated] if self.repeated else []), *self.source.remarks]

    def close(self) -> None:
        """Disconnect."""
        self.source.close()


def rows_of(payload: bytes) -> list[bytes]:
    """Return the rows of a message as lines: one for each element of a JSON list, else one.

    What is no row becomes a line that cannot be read as one, so that it is counted and kept as a bad row.
    """
    if len(payload) > _LARGEST_MESSAGE:
        return [f"\0a message of {len(payload):,} bytes\n".encode()]
    if payload.lstrip()[:1] == b"[":
        try:
            rows = json.loads(payload)
        except (RecursionError, ValueError):
            rows = []
        if rows:
            return [json.dumps(row).encode() + b"\n" for row in rows]
    text = b" ".join(payload.split(b"\n")).replace(b"\r", b" ").strip()
    return [(text or b'""') + b"\n"]


def _remember(known: OrderedDict[Any, Any], key: Any, value: Any, limit: int) -> None:
    known[key] = value
    if len(known) > limit:
        known.popitem(last=False)
