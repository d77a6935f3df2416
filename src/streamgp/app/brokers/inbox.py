"""Messages on the disk between their receipt and the checkpoint that holds what they taught.

A broker of MQTT hands out only so many messages that are not acknowledged (mosquitto: 20), and drops what comes beyond
its queue. So a message is written here, synced and acknowledged at once; after a crash it is read again from here.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from ... import checkpoint
from ...errors import DataError

# Messages kept although a checkpoint holds them: a broker may send those again whose acknowledgement was lost, and has
# at most so many on the way.
KEPT = 1000
# Bytes of such messages after which the file is written anew without them.
_COMPACTED = 1 << 20


class Received(NamedTuple):
    """A message: its number in the inbox, the broker's packet identifier (0: none), its payload."""

    number: int
    packet: int
    payload: bytes

    def line(self) -> bytes:
        """Return the message as a line of JSON."""
        text = self.payload.decode("utf-8", "surrogateescape")
        return json.dumps([self.number, self.packet, text]).encode() + b"\n"

    @classmethod
    def of(cls, line: bytes) -> Received:
        """Return the message in a line; raise ValueError if it is cut short."""
        number, packet, text = json.loads(line)
        return cls(number, packet, text.encode("utf-8", "surrogateescape"))

    @property
    def fingerprint(self) -> bytes:
        """Hash of the payload."""
        return hashlib.blake2b(self.payload, digest_size=16).digest()


class Inbox:
    """Received messages in a file, numbered 1, 2, …; written by one thread and read by another.

    Without a path the file is temporary and nothing is synced: memory stays small, and nothing outlives the process.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._changed = threading.Condition()
        self._file = self._opened(path)
        self._first = self._last = 0
        # Where the next message is read, and where the next one is written.
        self._offset = self._size = 0
        # Fingerprint of the last message with a packet identifier.
        self._packets: dict[int, bytes] = {}
        self._load()

    def _opened(self, path: Path | None) -> IO[bytes]:
        if path is None:
            return tempfile.TemporaryFile()
        with _write_errors(path):
            file = open(path, "a+b")  # noqa: SIM115  closed by `close`
            checkpoint.sync_folder(path.parent)
            return file

    def _load(self) -> None:
        """Read what an earlier process has left, up to a line that a crash has cut short."""
        self._file.seek(0)
        for line in self._file:
            try:
                message = Received.of(line)
            except (TypeError, ValueError):
                break
            if not line.endswith(b"\n") or (self._last and message.number != self._last + 1):
                break
            self._first = self._first or message.number
            self._packets[message.packet] = message.fingerprint
            self._last, self._size = message.number, self._size + len(line)
        self._file.truncate(self._size)

    def go_to(self, number: int) -> None:
        """Read next the message after `number`."""
        if self._first > number + 1:
            raise DataError(
                f"{self.path} begins with message {self._first}, but the run continues after message {number}; put "
                "back the checkpoint that belongs to it, or remove it and go on with the messages that come now"
            )
        if self._last <= number:
            self._file.truncate(0)
            self._first, self._last, self._offset, self._size = 0, number, 0, 0
            return
        self._offset = 0
        for _ in range(number + 1 - self._first):
            self._read()

    def knows(self, packet: int, payload: bytes) -> bool:
        """Return whether a message that the broker sends again is here already."""
        return self._packets.get(packet) == Received(0, packet, payload).fingerprint

    def append(self, messages: Sequence[tuple[int, bytes]]) -> None:
        """Write packet identifiers and payloads to the disk; they may be acknowledged afterwards."""
        with self._changed, _write_errors(self.path):
            new = [Received(self._last + 1 + i, *message) for i, message in enumerate(messages)]
            data = b"".join(message.line() for message in new)
            self._file.seek(self._size)
            self._file.write(data)
            self._file.flush()
            if self.path is not None:
                os.fsync(self._file.fileno())
            self._packets.update((message.packet, message.fingerprint) for message in new)
            self._first = self._first or new[0].number
            self._last, self._size = new[-1].number, self._size + len(data)
            self._changed.notify()

    def next(self, timeout: float) -> Received | None:
        """Return the next message, or None if there is none for so many seconds."""
        with self._changed:
            if self._offset >= self._size:
                self._changed.wait(timeout)
            return self._read() if self._offset < self._size else None

    def _read(self) -> Received:
        self._file.seek(self._offset)
        line = self._file.readline()
        self._offset += len(line)
        return Received.of(line)

    def drop(self, number: int) -> None:
        """Forget messages up to `number`, which a checkpoint holds, except the last KEPT ones; amortised O(1)."""
        if self._offset < max(_COMPACTED, self._size // 2):
            return
        fresh = None if self.path is None else self.path.with_name(f"{self.path.name}.new")
        # Nothing is sent again to a session that ends with the process.
        keep_after = number if self.path is None else number - KEPT
        with self._changed, _write_errors(fresh):
            if fresh is not None:
                fresh.unlink(missing_ok=True)
            file, unread = self._opened(fresh), self._size - self._offset
            self._file.seek(0)
            first = 0
            for line in self._file:
                kept = Received.of(line).number
                if kept > keep_after:
                    first = first or kept
                    file.write(line)
            file.flush()
            if fresh is not None and self.path is not None:
                os.fsync(file.fileno())
                fresh.replace(self.path)
                checkpoint.sync_folder(self.path.parent)
            self._file.close()
            self._file, self._first, self._size = file, first, file.tell()
            self._offset = self._size - unread

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextmanager
def _write_errors(path: Path | None) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{path or 'a temporary file'} cannot be written: {error.strerror}") from error
