"""A write-ahead log: records that are on the disk before they are answered, and are read again after a crash.

The log of ``plant.gp`` is in segments ``plant.gp.log.N``, N the number of the first record in it. A checkpoint begins a
new segment, and those before it are removed when it is written. A record is its length, its number, and the bytes of
`checkpoint.encode`, which have a checksum.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Protocol

from ... import checkpoint
from ...errors import CheckpointError, DataError

_HEAD = struct.Struct("<QQ")


class Log(Protocol):
    """Where records go before they are answered."""

    @property
    def number(self) -> int:
        """The number of the last record."""

    def write(self, record: dict[str, Any]) -> int:
        """Write a record and return its number; it is not safe yet."""

    def sync(self, number: int) -> None:
        """Return when the record of that number, and all before it, are safe."""

    def begin_segment(self) -> int:
        """Let later records go to another file; return the number of the last one before it."""

    def forget(self, number: int) -> None:
        """Remove the segments that hold no record after this number: a checkpoint has them."""

    def close(self) -> None:
        """Close the file."""


class NoLog:
    """Numbers records and keeps none of them."""

    def __init__(self, number: int = 0) -> None:
        self.number, self._lock = number, threading.Lock()

    def write(self, record: dict[str, Any]) -> int:
        """Return the number of the record."""
        with self._lock:
            self.number += 1
            return self.number

    def sync(self, number: int) -> None:
        """Do nothing."""

    def begin_segment(self) -> int:
        """Return the number of the last record."""
        return self.number

    def forget(self, number: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class FileLog:
    """Records in files; threads that append at the same time share one sync.

    Parameters
    ----------
    path : Path
        Of the model; that of the log begins with it.
    number : int
        Of the last record that the checkpoint or the log has.
    """

    def __init__(self, path: Path, number: int) -> None:
        self._path, self.number = path, number
        self._writing, self._syncing = threading.Lock(), threading.Lock()
        self._synced, self._broken = number, ""
        self._file = self._opened()

    def _opened(self) -> IO[bytes]:
        path = self._path.with_name(f"{self._path.name}.log.{self.number + 1}")
        try:
            file = path.open("ab")
            checkpoint.sync_folder(path.parent)
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error.strerror}") from error
        return file

    def write(self, record: dict[str, Any]) -> int:
        """Write a record and return its number; raise DataError with nothing written."""
        data = checkpoint.encode(record)
        with self._writing:
            self._raise_if_broken()
            number = self.number + 1
            self._write(_HEAD.pack(len(data), number) + data)
            self.number = number
        return number

    def sync(self, number: int) -> None:
        """Return when the record of that number, and all before it, are on the disk."""
        with self._syncing:
            if self._synced < number:
                self._sync()

    def _write(self, data: bytes) -> None:
        size = self._file.tell()
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            try:
                # What was written in part would hide all that follows.
                self._file.truncate(size)
            except OSError:
                self._broken = f"{self._file.name} cannot be written: {error.strerror}"
            raise DataError(f"{self._file.name} cannot be written: {error.strerror}") from error

    def _sync(self) -> None:
        with self._writing:
            self._raise_if_broken()
            written, file = self.number, self._file
        try:
            os.fsync(file.fileno())
        except OSError as error:
            # Whether earlier bytes reached the disk is not known any more: only reading them again tells.
            self._broken = f"{file.name} cannot be synced: {error.strerror}; restart the server"
            raise DataError(self._broken) from error
        self._synced = written

    def _raise_if_broken(self) -> None:
        if self._broken:
            raise DataError(self._broken)

    def begin_segment(self) -> int:
        """Let later records go to another file; return the number of the last one before it."""
        with self._syncing, self._writing:
            self._raise_if_broken()
            os.fsync(self._file.fileno())
            self._synced = self.number
            before, self._file = self._file, self._opened()
            before.close()
            return self.number

    def forget(self, number: int) -> None:
        """Remove the segments that hold no record after this number: a checkpoint has them."""
        found = segments(self._path)
        for (_, path), (following, _) in pairwise(found):
            if following <= number + 1:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def segments(path: Path) -> list[tuple[int, Path]]:
    """Return the segments of the log of a model, each with the number of its first record, in their order."""
    begin = f"{path.name}.log."
    found = [(part.name.removeprefix(begin), part) for part in path.parent.iterdir()]
    return sorted((int(n), part) for n, part in found if n.isdecimal())


def remove(path: Path) -> None:
    """Remove the log of a model."""
    for _, part in segments(path):
        part.unlink(missing_ok=True)


def read(path: Path, after: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records after that number, with their numbers; cut off a last one that is not whole.

    A record that is not whole was never answered. Raises CheckpointError if something is damaged in any other place.
    """
    found = segments(path)
    expected = min(found[0][0], after + 1) if found else 0
    for i, (first, part) in enumerate(found):
        if first != expected:
            raise CheckpointError(
                f"{path}: records {expected} to {first - 1} of its log are missing; put back the checkpoint that "
                f"belongs to the log, or move {path.name}.log.* away"
            )
        if i + 1 < len(found) and found[i + 1][0] <= after + 1:
            expected = found[i + 1][0]
            continue
        with part.open("rb+") as file:
            while True:
                start, record = file.tell(), _next(file, part, last=i + 1 == len(found))
                if record is None:
                    file.truncate(start)
                    break
                if record[0] != expected:
                    raise CheckpointError(f"{part} holds record {record[0]} where {expected} belongs")
                expected += 1
                if record[0] > after:
                    yield record


def _next(file: IO[bytes], part: Path, *, last: bool) -> tuple[int, dict[str, Any]] | None:
    """Return the next record and its number; None at the end, and at a record cut short at the end of the last file."""
    start = file.tell()
    head = file.read(_HEAD.size)
    if not head:
        return None
    whole = len(head) == _HEAD.size
    length, number = _HEAD.unpack(head) if whole else (0, 0)
    left = os.fstat(file.fileno()).st_size - file.tell()
    if whole and length <= left:
        try:
            return number, checkpoint.decode(file.read(length), part)
        except CheckpointError:
            # A crash may leave the length of the file without its last bytes.
            if not last or length < left:
                raise
    if not last:
        raise CheckpointError(f"{part} is cut short at byte {start}, although records follow")
    return None
