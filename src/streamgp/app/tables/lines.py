"""Lines of bytes, from a file that can be resumed or from a pipe that cannot."""

from __future__ import annotations

import io
import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from typing import IO, Protocol

from ...errors import DataError

# Seconds after which a silent pipe is asked again whether to stop.
PATIENCE = 1.0
_READ = 1 << 16
_LONGEST_LINE = 1 << 24


class Lines(Protocol):
    """Source of lines.

    Attributes
    ----------
    size : int or None
        Bytes of a file; None for anything else.
    omitted : int
        Bytes of the last line that its replacement does not have.
    deadline : float or None
        Time of `time.monotonic` by which the lines that have come must be answered; set by the reader.
    """

    omitted: int
    deadline: float | None

    @property
    def size(self) -> int | None:
        """Bytes of a file."""

    @property
    def remarks(self) -> Sequence[str]:
        """What the summary of a run should tell."""

    def seek(self, offset: int) -> bool:
        """Move to a byte and return True, or return False if there is no position to move to."""

    def __iter__(self) -> Iterator[bytes | None]:
        """Yield lines, and None where a batch should not wait for more."""

    def close(self) -> None:
        """Let go of the source."""


class FileLines:
    """Lines of a file; iterating never yields None."""

    # A file does not wait, so nobody waits for what has been read.
    deadline: float | None = None

    def __init__(self, file: IO[bytes], size: int, whole_lines: bool) -> None:
        self.file, self.size, self.whole_lines = file, size, whole_lines
        # Bytes of the last line that its replacement does not have; see _too_long.
        self.omitted = 0
        self.incomplete = False

    @property
    def remarks(self) -> Sequence[str]:
        """What the summary of a run should tell."""
        if self.incomplete:
            return ["the last line has no line end yet: it is left for the next run with --resume"]
        return []

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def seek(self, offset: int) -> bool:
        """Move to a byte and return True."""
        if offset > self.size:
            raise DataError(
                f"the file ends before byte {offset}, where the run resumes; is it the same file?"
            )
        self.file.seek(offset)
        return True

    def __iter__(self) -> Iterator[bytes | None]:
        while line := self.file.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
                length, more = len(line), line
                while more and not more.endswith(b"\n"):
                    more = self.file.readline(_LONGEST_LINE)
                    length += len(more)
                line = _too_long(length)
                self.omitted = length - len(line)
            elif not line.endswith(b"\n") and self.whole_lines:
                self.incomplete = True
                return
            yield line


def _too_long(length: int) -> bytes:
    """Return the replacement of a line that is too long to be a row; it parses as a bad row."""
    return f"\0a line of {length:,} bytes\n".encode()


class PipeLines:
    """Lines of a pipe; iterating yields None whenever `deadline` or PATIENCE seconds have passed without a line.

    `deadline` is a time of `time.monotonic` by which the lines that have come must be answered, or None.
    """

    size = None
    remarks: Sequence[str] = ()
    deadline: float | None = None

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.omitted = 0

    def close(self) -> None:
        """Do nothing: whoever opened the pipe closes it."""

    def seek(self, offset: int) -> bool:
        """Return False: a pipe has no position to move to."""
        return False

    def __iter__(self) -> Iterator[bytes | None]:
        try:
            handle = self.file.fileno()
        except (io.UnsupportedOperation, ValueError):  # standard input of a test or a notebook
            yield from self.file
            return
        remainder, dropped = b"", 0
        while True:
            left = PATIENCE if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)
            if sys.platform != "win32" and not select.select([handle], [], [], min(left, PATIENCE))[0]:
                yield None
                continue
            data = os.read(handle, _READ)
            if not data:
                break
            *whole, remainder = (remainder + data).split(b"\n")
            for line in whole:
                if dropped:
                    dropped, line = 0, _too_long(dropped + len(line))[:-1]
                yield line + b"\n"
            if len(remainder) > _LONGEST_LINE:
                dropped, remainder = dropped + len(remainder), b""
        if remainder or dropped:
            yield _too_long(dropped + len(remainder)) if dropped else remainder
