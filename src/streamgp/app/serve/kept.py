"""Rows that were predicted under an id and wait for their labels: what is kept of them, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...columns.state import ColumnState
from ...online.answered import Answers
from ..predictions import RowPredictions
from . import arrivals
from .rows import RawRows


@dataclass(frozen=True)
class Kept:
    """A row that was predicted under an id, until its label comes: its features (d,), what was said, and the answer.

    Where columns are turned into numbers, `raw` is the row as it came, and `row` its number in the stream.
    """

    x: np.ndarray
    said: RowPredictions
    answer: Answers
    raw: RawRows | None = None
    row: int = 0

    def is_row(self, raw: RawRows, i: int) -> bool:
        """Return whether this is row i of `raw`."""
        own, same_texts = self.x, True
        if self.raw is not None:
            own, same_texts = self.raw.numbers[0], self.raw.texts[0] == raw.texts[i]
        return same_texts and np.array_equal(own, raw.numbers[i], equal_nan=True)


@dataclass(frozen=True)
class Arrival:
    """Rows to predict under ids.

    X : (m, d)
    rows : (m,)
        Numbers of the rows in the stream.
    new : tuple of int
        Places of those that arrive now; the others came before, or have no id.
    state : ColumnState or None
        The columns after them.
    """

    X: np.ndarray
    rows: np.ndarray
    new: tuple[int, ...]
    state: ColumnState | None


def arrival_of(
    state: ColumnState | None, ids: Sequence[str | None], raw: RawRows, kept: Mapping[str, Kept]
) -> Arrival:
    """Return rows that are predicted under ids, None for one that does not arrive, as those that are `kept` do not."""
    n = len(ids)
    if state is None:
        return Arrival(raw.numbers, np.zeros(n, dtype=np.int64), tuple(range(n)), None)
    known = {i: kept[name] for i, name in enumerate(ids) if name is not None and name in kept}
    known = {i: row for i, row in known.items() if row.is_row(raw, i)}
    new = [i for i, name in enumerate(ids) if name is not None and i not in known]
    rest = [i for i, name in enumerate(ids) if name is None]
    came = arrivals.advanced(state, raw.take(new), None, new)
    X, rows = np.empty((n, came.X.shape[1])), np.zeros(n, dtype=np.int64)
    X[new], rows[new] = came.X, came.rows
    X[rest] = arrivals.advanced(came.state, raw.take(rest), None, rest).X
    for i, row in known.items():
        X[i], rows[i] = row.x, row.row
    return Arrival(X, rows, tuple(new), came.state)


def packed(kept: Sequence[Kept]) -> dict[str, Any] | None:
    """Return kept rows as arrays, for a file."""
    if not kept:
        return None
    raws = [row.raw for row in kept if row.raw is not None]
    raw = RawRows.joined(raws) if raws else None
    return {
        "X": np.stack([row.x for row in kept]), "said": table(kept),
        "answers": Answers.joined([row.answer for row in kept]), "rows": tuple(row.row for row in kept),
        "numbers": raw and raw.numbers, "texts": raw and raw.texts,
    }  # fmt: skip


def table(kept: Sequence[Kept]) -> np.ndarray:
    """Return what was said of kept rows, (m, 4, q)."""
    return np.stack([[row.said.mean[0], row.said.std[0], row.said.low[0], row.said.high[0]] for row in kept])


def unpacked(content: dict[str, Any] | None) -> list[Kept]:
    """Return the rows of which `packed` returned `content`."""
    if content is None:
        return []
    X, said, answers, rows = (content[name] for name in ("X", "said", "answers", "rows"))
    raw = None if content["numbers"] is None else RawRows(content["numbers"], content["texts"])
    return [
        Kept(
            X[i], RowPredictions(*said[i][:, None, :]), answers.take(slice(i, i + 1)), raw and raw.take([i]), rows[i]
        )
        for i in range(len(X))
    ]  # fmt: skip
