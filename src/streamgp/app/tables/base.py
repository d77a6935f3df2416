"""Types that the readers share: batches, bad rows, positions in the input, reading options."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
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
        NaN where a value is missing.
    y : (b, q)
        NaN where a label is missing.
    line_numbers : list of int
        Of the rows in `X`.
    bad : list of BadRow
        Rows of the same stretch that are not in `X` and `y`.
    position : Position
        Where the reader is after the batch.
    texts : (b, t)
        Cells of other columns as text, empty where they are missing.
    empty : int
        Lines of the same stretch in which every cell is empty; they are no rows.
    weights : (b,) or None
        Weights of the rows; None where all of them count alike.
    """

    X: np.ndarray
    y: np.ndarray
    line_numbers: list[int]
    bad: list[BadRow] = field(default_factory=list)
    position: Position = Position()
    texts: np.ndarray = field(default_factory=lambda: np.empty((0, 0), dtype=object))
    empty: int = 0
    weights: np.ndarray | None = None

    def only(self, mask: np.ndarray) -> TableRows:
        """Return the rows for which the mask (b,) is true."""
        if mask.all():
            return self
        numbers = [line for line, wanted in zip(self.line_numbers, mask, strict=True) if wanted]
        texts = self.texts[mask] if self.texts.size else self.texts
        weights = self.weights if self.weights is None else self.weights[mask]
        return replace(
            self, X=self.X[mask], y=self.y[mask], line_numbers=numbers, texts=texts, weights=weights
        )

    def behind(self, others: TableRows) -> TableRows:
        """Return the rows of others, then these; without texts."""
        X, y = (np.concatenate([getattr(part, name) for part in (others, self)]) for name in ("X", "y"))
        known = self.weights is not None and others.weights is not None
        weights = np.concatenate([others.weights, self.weights]) if known else None
        return TableRows(X, y, [*others.line_numbers, *self.line_numbers], weights=weights)

    def text_of(self, i: int) -> str:
        """Return row i as text."""
        return row_text(self.X[i], self.y[i])


def row_text(x: np.ndarray, y: np.ndarray) -> str:
    """Return the numbers of a row as text."""
    return json.dumps([float(v) if np.isfinite(v) else None for v in (*x, *y)])


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
    decimal : {".", ","}
        Of numbers in CSV.
    encoding : str
        Of text.
    missing : sequence of str
        Texts or numbers that mean 'missing', beside an empty cell, NA, NaN and null.
    max_wait : float
        Seconds after which the rows of a pipe are passed on, however few they are.
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
    decimal: str = "."
    encoding: str = "utf-8"
    missing: Sequence[str] = ()
    max_wait: float = 1.0
    replay: bool = False
    whole_lines: bool = False
    should_stop: Callable[[], bool] = _never


class Reader(Protocol):
    """Source of batches.

    Attributes
    ----------
    columns : list of str
    unnamed : list of str
        Those that the input gives no name.
    size : int or None
        Bytes (rows, for Parquet) of a file; None for a pipe.
    open_ended : bool
        Whether later rows may have columns that are not in `columns`.
    """

    columns: list[str]
    unnamed: list[str]
    size: int | None
    open_ended: bool

    @property
    def remarks(self) -> Sequence[str]:
        """What the summary of a run should tell."""

    def close(self) -> None:
        """Let go of the input."""

    def batches(
        self, features: Sequence[str], targets: Sequence[str], batch_size: int, texts: Sequence[str] = ()
    ) -> Iterator[TableRows]:
        """Yield batches of `batch_size` rows, bad ones counted; the last, and those of a slow pipe, may be smaller."""


def numbered(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return names that all differ, and which of them the input does not give.

    The fifth column is called "column 5" if it has no name, and "load.2" if it is the second one called "load".
    """
    taken, out, unnamed = set(names), [], []
    for i, name in enumerate(names):
        free = name or f"column {i + 1}"
        times = 2
        while free in out or (free != name and free in taken):
            free = f"{name or f'column {i + 1}'}.{times}"
            times += 1
        out.append(free)
        if not name:
            unnamed.append(free)
    return out, unnamed


def check_names(columns: Sequence[str]) -> None:
    """Raise DataError if two columns have the same name."""
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    if repeated:
        raise DataError(f"columns {', '.join(map(repr, repeated))} occur more than once; rename them")
