"""Rows of a stream as they arrive: raw rows as the numbers that the model takes, by what its columns have shown.

A row arrives when it is predicted under an id, or learned without that; a row that is predicted without an id is taken
to come next, and does not arrive.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ...columns import StreamColumns
from ...columns.state import ColumnState
from ...errors import InputError, ParameterError
from .rows import RawRows, Refusal


@dataclass(frozen=True)
class Arrived:
    """Rows as numbers, X (b, d), the numbers of the rows in the stream (b,), and the columns after them."""

    X: np.ndarray
    rows: np.ndarray
    state: ColumnState | None


def advanced(
    state: ColumnState | None, raw: RawRows, y: np.ndarray | None = None, places: Sequence[int] = ()
) -> Arrived:
    """Return the rows that come next, with targets (b, q) as far as they are known; without a state, as they are.

    Raise Refusal for a time that cannot be read, with its place in the request.
    """
    none = np.zeros(len(raw.numbers), dtype=np.int64)
    if state is None:
        return Arrived(raw.numbers, none, None)
    if not none.size:
        return Arrived(np.empty((0, len(state.features))), none, state)
    table: dict[str, Any] = {name: raw.numbers[:, j] for j, name in enumerate(state.numbers)}
    table |= {name: [row[j] for row in raw.texts] for j, name in enumerate(state.texts)}
    try:
        X, after = state.advance(table, y)
    except InputError:
        wrong = state.unreadable(table)
        if not wrong:
            raise
        i, what = min(wrong.items())
        place = places[i] if places else i
        raise Refusal(
            422, f"{what}, in row {place}", "send a time, or leave the row out", row=place,
            column=state.texts[0],
        ) from None  # fmt: skip
    return Arrived(X, np.arange(state.row, after.row), after)


def labelled(state: ColumnState | None, rows: np.ndarray, y: np.ndarray) -> ColumnState | None:
    """Return the columns that know the targets (b, q) of rows (b,) that arrived before."""
    return state.labelled(rows, y) if state is not None and rows.size else state


def learned(
    state: ColumnState | None, raw: RawRows, y: np.ndarray, before: dict[int, int], places: Sequence[int] = ()
) -> Arrived:
    """Return the rows of a request to learn that have not arrived before, and the columns after all of it.

    y (b, q) are the targets of all its rows, `before` the places of those that arrived before, with their numbers.
    """
    late = list(before)
    state = labelled(state, np.array([before[i] for i in late], dtype=np.int64), y[late])
    new = [i for i in range(y.shape[0]) if i not in before]
    return advanced(state, raw, y[new], [places[i] for i in new] if places else ())


class Arrivals:
    """What the columns of a service have shown so far.

    Parameters
    ----------
    transformer : StreamColumns, optional
        Turns raw rows into numbers; None where all columns are numbers.

    Attributes
    ----------
    lock : context manager
        Held while a row arrives and is written to the log, so that a log that is read again gives the same columns.
    """

    def __init__(self, transformer: StreamColumns | None = None) -> None:
        self._transformer = transformer
        # Without columns that remember, the order of arrivals is of no account.
        self.lock: AbstractContextManager[Any] = nullcontext() if transformer is None else threading.RLock()

    @property
    def state(self) -> ColumnState | None:
        """What the columns have shown so far; None where all are numbers, and before the first row."""
        return getattr(self._transformer, "state_", None)

    def begin(self, features: tuple[str, ...]) -> None:
        """Take the names of the columns from the first row."""
        if self._transformer is not None:
            try:
                self._transformer.begin(features)
            except ParameterError as error:
                raise Refusal(422, str(error), "send first rows that have this column") from error

    def features_of(self, raw: RawRows) -> np.ndarray:
        """Return rows as the model takes them, (m, d), as if they came next."""
        return advanced(self.state, raw).X

    def moved_on(self, state: ColumnState | None) -> None:
        """Take over the columns after rows that arrived."""
        if self._transformer is not None and state is not None:
            self._transformer.state_ = state

    def again(self, record: dict[str, Any]) -> None:
        """Let the rows of a record of the log arrive, request by request, as they did."""
        if self.state is None:
            return
        before = dict(zip(record["answered"], record["rows"].tolist(), strict=True))
        ends, used = np.cumsum([0, *record["sizes"]]), 0
        for a, b in pairwise(ends):
            late = {i - a: row for i, row in before.items() if a <= i < b}
            new = slice(used, used + b - a - len(late))
            raw = RawRows(record["numbers"][new], record["texts"][new])
            self.moved_on(learned(self.state, raw, record["y"][a:b], late).state)
            used = new.stop

    def to_dict(self) -> dict[str, Any] | None:
        """Return everything for a checkpoint, None where there is nothing."""
        return None if self._transformer is None or self.state is None else self._transformer.to_dict()
