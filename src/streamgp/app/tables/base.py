"""Types that the readers share: batches, bad rows, positions in the input, reading options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ...errors import DataError


@dataclass(frozen=True)
class Position:
    """Where a reader is in its input: bytes read (rows, for Parquet) and the number of the last line read."""

    offset: int = 0
    line: int = 0


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be learned: its line number (row number, for Parquet), the reason and its text."""

    line: int
    reason: str
    text: str


@dataclass
class TableRows:
    """Consecutive rows of a table.

    Attributes
    ----------
    X : (b, d)
    y : (b, q)
        NaN where a label is missing.
    line_numbers : list of int
        Of the rows in `X`.
    bad : list of BadRow
        Rows of the same stretch that are not in `X` and `y`.
    position : Position
        Where the reader is after the batch.
    """

    X: np.ndarray
    y: np.ndarray
    line_numbers: list[int]
    bad: list[BadRow] = field(default_factory=list)
    position: Position = Position()


def _never() -> bool:
    return False


@dataclass(frozen=True)
class ReadOptions:
    """How to read a table.

    Attributes
    ----------
    position : Position
        Where to resume.
    format : {"csv", "jsonl", "parquet"}, optional
        By default the suffix of the file decides.
    delimiter : str, optional
        Of CSV; by default the most frequent of comma, semicolon and tab in the first line.
    header : bool
        Whether the first line of CSV names the columns. If not, they are called 1, 2, 3, …
    columns : sequence of str, optional
        Names of the columns of CSV or JSON lines, instead of those of the first line.
    replay : bool
        Whether a pipe sends its input from the beginning, so that everything up to `position` is skipped.
    whole_lines : bool
        Whether to leave a last line of a file unread if it has no line end yet.
    should_stop : callable
        Called while a pipe is silent; returns whether to stop.
    """

    position: Position = Position()
    format: str | None = None
    delimiter: str | None = None
    header: bool = True
    columns: Sequence[str] | None = None
    replay: bool = False
    whole_lines: bool = False
    should_stop: Callable[[], bool] = _never


class Reader(Protocol):
    """Source of batches.

    Attributes
    ----------
    columns : list of str
    size : int or None
        Bytes (rows, for Parquet) of a file; None for a pipe.
    open_ended : bool
        Whether later rows may have columns that are not in `columns`.
    """

    columns: list[str]
    size: int | None
    open_ended: bool

    @property
    def incomplete_line(self) -> bool:
        """Whether a last line was left unread because it has no line end yet."""

    def batches(
        self, features: Sequence[str], targets: Sequence[str], batch_size: int
    ) -> Iterator[TableRows]:
        """Yield batches of `batch_size` rows, bad ones counted; the last, and those of a slow pipe, may be smaller."""


def check_names(columns: Sequence[str]) -> None:
    """Raise DataError if two columns have the same name."""
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    if repeated:
        raise DataError(f"columns {', '.join(map(repr, repeated))} occur more than once; rename them")
