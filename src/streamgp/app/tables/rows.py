"""What every reader hands out: batches of rows, each row with its place, bad ones apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ...errors import DataError


@dataclass(frozen=True)
class Place:
    """Where in the input a reader stands: bytes (or rows, for Parquet) passed, and the number of the last line."""

    offset: int = 0
    line: int = 0


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be learned: the number of its line or row, why, and what it was."""

    line: int
    reason: str
    text: str


@dataclass
class Rows:
    """A batch: inputs (b, d); targets (b, q), NaN where a label is missing; line numbers; and rows that are bad."""

    X: np.ndarray
    y: np.ndarray
    lines: list[int]
    bad: list[BadRow] = field(default_factory=list)
    place: Place = Place()


class Reader(Protocol):
    """What hands out batches.

    `size` is that of a file; `open_ended`, whether other columns than these may come; `left`, whether a last line was
    left alone because it does not end yet.
    """

    columns: list[str]
    size: int | None
    open_ended: bool

    @property
    def left(self) -> bool:
        """See above."""

    def batches(self, features: Sequence[str], targets: Sequence[str], n: int) -> Iterator[Rows]:
        """Give batches of n rows, good and bad; the last one, and those of a slow pipe, may have fewer."""


def check_names(columns: Sequence[str]) -> None:
    """Refuse columns of one name."""
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise DataError(f"the columns {', '.join(map(repr, twice))} stand there more than once; rename them")
