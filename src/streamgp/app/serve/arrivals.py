"""Rows of a stream as they arrive: raw rows as the numbers that the model takes, by what its columns have shown.

A row arrives when it is predicted under an id, or learned without that; a row that is predicted without an id is taken
to come next, and does not arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...columns.state import ColumnState
from ...errors import InputError
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
