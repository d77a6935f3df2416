"""Tables from CSV, JSON lines, Parquet or a pipe, read in batches."""

from __future__ import annotations

import io
import os
import stat
import sys
from pathlib import Path
from typing import IO

from ...errors import DataError, ParameterError
from .base import BadRow, Position, Reader, ReadOptions, TableRows, row_text
from .csv_lines import CsvReader
from .json_lines import JsonReader
from .lines import FileLines, PipeLines
from .parquet import ParquetReader

__all__ = ["BadRow", "JsonReader", "Position", "ReadOptions", "Reader", "TableRows", "open_table", "row_text"]

_FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


def open_table(source: str, options: ReadOptions | None = None) -> Reader:
    """Return a reader of a file, or of standard input ("-"; CSV unless `options` name another format)."""
    options = options or ReadOptions()
    format = options.format or _format_of(source)
    if format == "parquet":
        if source == "-":
            raise DataError("Parquet cannot be read from standard input; name a file")
        return ParquetReader(source, options)
    _check_encoding(options.encoding)
    lines = _lines(_opened(source), options.whole_lines)
    return JsonReader(lines, options) if format == "jsonl" else CsvReader(lines, options)


def _check_encoding(encoding: str) -> None:
    """Raise ParameterError for an encoding that is not known, or in which a line does not end with the byte 10."""
    try:
        ends = "\n".encode(encoding)
    except LookupError:
        raise ParameterError(f"--encoding {encoding} is not known; try utf-8, latin-1 or cp1252") from None
    if ends != b"\n":
        raise ParameterError(
            f"--encoding {encoding} has more than one byte for each letter; convert the file first: "
            f"iconv -f {encoding} -t utf-8 FILE | streamgp run -"
        )


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
    """Return the lines of a regular file or of a pipe; standard input may be either."""
    try:
        status = os.fstat(file.fileno())
    except (io.UnsupportedOperation, ValueError):  # standard input of a test or a notebook
        return PipeLines(file)
    return FileLines(file, status.st_size, whole_lines) if stat.S_ISREG(status.st_mode) else PipeLines(file)


def _format_of(source: str) -> str:
    if source == "-":
        return "csv"
    suffix = Path(source).suffix.lower()
    if suffix not in _FORMATS:
        raise DataError(
            f"{source} does not end in any of {', '.join(_FORMATS)}; give its format with --format"
        )
    return _FORMATS[suffix]
