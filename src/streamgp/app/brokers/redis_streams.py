"""Redis streams: entries as a source, predictions as entries."""

from __future__ import annotations

import json
import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...errors import DataError
from .address import Address
from .answers import Answers
from .link import Link, Say

# Entries read, or acknowledged, at once.
_READ = 500
# Seconds that the server may take to answer.
_PATIENCE = 10.0
_CONSUMER = "run"
# Seconds that predictions may take to arrive when the run is to stop.
_LAST_PATIENCE = 5.0
# Identifiers of runs are whole numbers that every JSON reader keeps exactly.
_LARGEST_RUN = 1 << 53


def _import_redis() -> Any:
    try:
        import redis
    except ImportError as error:
        raise DataError("Redis needs redis-py: pip install 'streamgp[brokers]'") from error
    return redis


def _connection(address: Address) -> Any:
    """Return a connection; it tries nothing twice, since `Link` decides about that."""
    redis = _import_redis()
    more: dict[str, Any] = {}
    if address.tls() is not None:
        files = {"ca": "ssl_ca_certs", "cert": "ssl_certfile", "key": "ssl_keyfile"}
        more = {"ssl": True, **{files[n]: v for n, v in address.settings.items() if n in files}}
    return redis.Redis(
        address.host, address.port, db=int(address.settings.get("db", 0)), username=address.user,
        password=address.password, socket_timeout=_PATIENCE, socket_connect_timeout=_PATIENCE,
        socket_keepalive=True, retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0), protocol=2, **more,
    )  # fmt: skip


@contextmanager
def _start_errors(address: Address) -> Iterator[None]:
    try:
        yield
    except _import_redis().ResponseError as error:
        raise DataError(f"{address} cannot be used: {error}") from error
    except (_import_redis().RedisError, OSError) as error:
        raise DataError(f"{address} cannot be reached: {error}; is Redis running there?") from error


class RedisSource:
    """Entries of a stream, from the first one on.

    Parameters
    ----------
    address : Address
    group : str or None
        Consumer group, in which entries are acknowledged when a checkpoint holds them; None reads without a group.
    say : callable
        Shows a message.
    """

    def __init__(self, address: Address, group: str | None, say: Say) -> None:
        self.address, self._group, self._say = address, group, say
        self._link = Link(address, say)
        self._redis, self._errors = _connection(address), _import_redis().RedisError
        self._entries: deque[tuple[str, bytes]] = deque()
        # The last entry that was read, and whether the server knows that it was.
        self._read_to, self._in_place = "0-0", False
        self.remarks: Sequence[str] = ()

    def start(self, mark: str) -> None:
        """Connect, and continue after the entry at `mark` (empty: with the first one that is unread)."""
        with _start_errors(self.address):
            self._redis.ping()
            self._read_to = mark or self._first_unread()
            self._go_to()

    def next(self, timeout: float) -> tuple[str, bytes] | None:
        """Return the mark and the payload of the next entry, or None if none comes for so many seconds."""
        if not self._entries:
            self._fetch(timeout)
        return self._entries.popleft() if self._entries else None

    def saved(self, mark: str) -> None:
        """Acknowledge entries up to `mark`; if the server is away, that is done when it is back."""
        if self._group is not None and self._in_place:
            try:
                self._acknowledge(mark)
            except (self._errors, OSError):
                self._in_place = False

    def close(self) -> None:
        """Disconnect."""
        self._redis.close()

    def _fetch(self, timeout: float) -> None:
        """Read entries; if the server is away, wait and connect again."""
        if self._link.seconds_to_wait > 0 and self._link.lost_at is not None:
            time.sleep(min(timeout, self._link.seconds_to_wait))
            return
        # Zero would mean forever.
        more = {"block": max(1, math.ceil(1000 * timeout))} if timeout > 0 else {}
        try:
            if not self._in_place:
                self._go_to()
            self._link.found()
            if self._group is None:
                answer = self._redis.xread({self.address.name: self._read_to}, _READ, **more)
            else:
                streams = {self.address.name: ">"}
                answer = self._redis.xreadgroup(self._group, _CONSUMER, streams, _READ, **more)
        except (self._errors, OSError) as error:
            self._in_place = False
            self._link.lost(error)
            return
        for mark, fields in answer[0][1] if answer else ():
            self._read_to = mark.decode()
            self._entries.append((self._read_to, _payload(fields)))

    def _go_to(self) -> None:
        """Let the group continue after the last entry that was read; it may have lost its place, or be lost."""
        if self._group is not None:
            if not self._known_group():
                self._redis.xgroup_create(self.address.name, self._group, self._read_to, mkstream=True)
            else:
                self._redis.xgroup_setid(self.address.name, self._group, self._read_to)
        self._in_place = True

    def _known_group(self) -> dict[str, Any] | None:
        """Return what the server knows of the group, None if it is new."""
        if not self._redis.exists(self.address.name):
            return None
        groups = self._redis.xinfo_groups(self.address.name)
        return next((g for g in groups if g["name"].decode() == self._group), None)

    def _first_unread(self) -> str:
        """Return the entry after which a run without a checkpoint begins."""
        group = self._known_group() if self._group is not None else None
        if group is None:
            return "0-0"
        waiting = self._redis.xpending(self.address.name, self._group)
        mark = _before(waiting["min"].decode()) if waiting["pending"] else group["last-delivered-id"].decode()
        if mark != "0-0":
            self._say(
                f"{self.address}: group {self._group} has read up to entry {mark}; to read from the beginning, name "
                "another group (?group=NAME)"
            )
        return mark

    def _acknowledge(self, mark: str) -> None:
        while True:
            found = self._redis.xpending_range(self.address.name, self._group, "-", mark or "0-0", _READ)
            if found:
                self._redis.xack(self.address.name, self._group, *(entry["message_id"] for entry in found))
            if len(found) < _READ:
                return


def _before(mark: str) -> str:
    """Return the identifier just before that of an entry."""
    ms, number = map(int, mark.split("-"))
    return f"{ms}-{number - 1}" if number else f"{ms - 1}-{2**64 - 1}"


def _payload(fields: dict[bytes, bytes]) -> bytes:
    """Return an entry as JSON: its only field if that holds JSON, else its fields by name."""
    values = list(fields.values())
    if len(values) == 1 and values[0].lstrip()[:1] in (b"{", b"["):
        return values[0]
    row = {name.decode("utf-8", "replace"): _value(value) for name, value in fields.items()}
    return json.dumps(row).encode()


def _value(data: bytes) -> Any:
    """Return the value of a field: a number where it is one, None where it is empty, else a text."""
    text = data.decode("utf-8", "replace").strip()
    if not text:
        return None
    if "_" in text or not text.isascii():
        return text
    try:
        # An id such as 17 stays one.
        return int(text) if text.removeprefix("-").isdecimal() else float(text)
    except ValueError:
        return text


def _text(value: Any) -> str:
    """Return a value as a field: numbers keep every bit, None is empty."""
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


class RedisWriter:
    """Predictions to a stream: one entry a row, each written once.

    The fields are those of a prediction and `run`, a number by which the rows of a run are recognised: after an
    interruption, rows up to that of the last entry are not written again. Nobody else may write to the stream.
    """

    def __init__(
        self, address: Address, answers: Answers, run: int, say: Say, should_stop: Callable[[], bool]
    ) -> None:
        self.address, self.path, self._answers = address, str(address), answers
        self._should_stop, self._link = should_stop, Link(address, say)
        self._redis, self._errors = _connection(address), _import_redis().RedisError
        self.run = run or secrets.randbelow(_LARGEST_RUN - 1) + 1
        with _start_errors(address):
            self._written = self._last_line()

    def write(self, line_numbers: Sequence[int], texts: np.ndarray, columns: Sequence[np.ndarray]) -> None:
        """Write rows; wait while the server is away."""
        rows = list(self._answers.rows(line_numbers, texts, columns))
        patience = _LAST_PATIENCE
        while True:
            try:
                if self._link.lost_at is not None:
                    self._written = self._last_line()
                    self._link.found()
                self._add([row for row in rows if row["line"] > self._written])
                return
            except (self._errors, OSError) as error:
                self._link.lost(error)
                while self._link.seconds_to_wait > 0 and patience > 0:
                    time.sleep(0.05)
                    patience -= 0.05 if self._should_stop() else 0.0
                if patience <= 0:
                    raise DataError(
                        f"{self.address} does not take the last predictions ({error}); with --checkpoint and --resume "
                        "they are written when it does"
                    ) from error

    def _add(self, rows: Sequence[dict[str, Any]]) -> None:
        pipeline = self._redis.pipeline(transaction=True)
        for row in rows:
            fields = {name: _text(value) for name, value in row.items()}
            pipeline.xadd(self.address.name, {"run": self.run, **fields})
        if rows:
            pipeline.execute()
            self._written = rows[-1]["line"]

    def _last_line(self) -> int:
        """Return the line of the last entry if this run wrote it, else 0."""
        last = self._redis.xrevrange(self.address.name, count=1)
        fields = last[0][1] if last else {}
        return int(fields[b"line"]) if fields.get(b"run") == str(self.run).encode() else 0

    def flush(self) -> int:
        """Return the number of the run, by which a resumed one continues."""
        return self.run

    def close(self) -> None:
        """Disconnect."""
        self._redis.close()
