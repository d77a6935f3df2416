"""Lines of bytes, from a file that can be gone on in or from a pipe that cannot."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Iterator
from typing import IO

from ...errors import DataError

# A batch that is not full is handed on when nothing more has come through a pipe for so many seconds.
PATIENCE = 1.0
_READ = 1 << 16
_LONGEST_LINE = 1 << 24


class FileLines:
    """Lines of a file; None never comes: a file does not keep one waiting."""

    def __init__(self, file: IO[bytes], size: int, whole_lines: bool) -> None:
        self.file, self.size, self.whole_lines = file, size, whole_lines
        self.skipped = 0
        self.left = False

    def skip_to(self, offset: int) -> bool:
        """Go to a byte; tell whether that can be done."""
        if offset > self.size:
            raise DataError(f"the file ends before byte {offset}, where it is to go on: is it the same file?")
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
                self.skipped = length - len(line)
            elif not line.endswith(b"\n") and self.whole_lines:
                self.left = True
                return
            yield line


def _too_long(length: int) -> bytes:
    """Give what stands for a line that is too long to be a row."""
    return f"\0a line of {length:,} bytes\n".encode()


class PipeLines:
    """Lines of a pipe; None when nothing has come for a while."""

    size = None
    left = False

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.skipped = 0

    def skip_to(self, offset: int) -> bool:
        """Go to a byte; tell whether that can be done."""
        return False

    def __iter__(self) -> Iterator[bytes | None]:
        try:
            handle = self.file.fileno()
        except (io.UnsupportedOperation, ValueError):  # a test's, or a notebook's
            yield from self.file
            return
        left, lost = b"", 0
        while True:
            if sys.platform != "win32" and not select.select([handle], [], [], PATIENCE)[0]:
                yield None
                continue
            data = os.read(handle, _READ)
            if not data:
                break
            *whole, left = (left + data).split(b"\n")
            for line in whole:
                if lost:
                    lost, line = 0, _too_long(lost + len(line))[:-1]
                yield line + b"\n"
            if len(left) > _LONGEST_LINE:
                lost, left = lost + len(left), b""
        if left or lost:
            yield _too_long(lost + len(left)) if lost else left
