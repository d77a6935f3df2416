"""Rows from CSV, JSON lines, Parquet or a pipe, a batch at a time, each with its place."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from ...errors import DataError
from .lines import FileLines, PipeLines
from .parquet import Parquet
from .rows import BadRow, Place, Reader, Rows
from .text import Csv, JsonLines

__all__ = ["BadRow", "Place", "Reader", "Rows", "open_table"]


def open_table(
    source: str,
    place: Place | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    header: bool = True,
    columns: Sequence[str] | None = None,
    replay: bool = False,
    whole_lines: bool = False,
    stopped: Callable[[], bool] | None = None,
) -> Reader:
    """Open a table by its suffix, or `format`; "-" is standard input (CSV unless said otherwise).

    `place` is where to go on. `columns` names the columns where the first line does not; without that and without
    `header` they are called 1, 2, 3. `replay`: a pipe sends everything again, and what was passed is skipped.
    `whole_lines`: a last line of a file that does not end yet is left alone. `stopped` is asked while a pipe is silent.
    """
    kind, place = format or _format_of(source), place or Place()
    if kind == "parquet":
        if source == "-":
            raise DataError("Parquet cannot be read from standard input; name a file")
        return Parquet(source, place)
    file = _opened(source)
    lines = _lines(file, whole_lines)
    given = (lines, place, columns, replay, stopped or (lambda: False))
    return JsonLines(*given) if kind == "jsonl" else Csv(*given, delimiter, header)


def _opened(source: str) -> IO[bytes]:
    if source == "-":
        if sys.stdin is None:
            raise DataError("there is no standard input; name a file")
        return sys.stdin.buffer
    try:
        if stat.S_ISDIR(os.stat(source).st_mode):
            raise DataError(f"{source} is a folder; name a file")
        return open(source, "rb")
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror}") from error


def _lines(file: IO[bytes], whole_lines: bool) -> FileLines | PipeLines:
    """Tell files, which can be gone on in, from pipes; standard input may be either."""
    try:
        status = os.fstat(file.fileno())
    except (io.UnsupportedOperation, ValueError):  # a test's, or a notebook's
        return PipeLines(file)
    return FileLines(file, status.st_size, whole_lines) if stat.S_ISREG(status.st_mode) else PipeLines(file)


def _format_of(source: str) -> str:
    suffix = Path(source).suffix.lower()
    known = {
        ".csv": "csv",
        ".tsv": "csv",
        ".txt": "csv",
        ".jsonl": "jsonl",
        ".ndjson": "jsonl",
        ".parquet": "parquet",
    }
    if source == "-":
        return "csv"
    if suffix not in known:
        raise DataError(f"{source} ends in none of {', '.join(known)}; say what it is with --format")
    return known[suffix]
