"""Predictions as messages: one JSON object a row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np


class Answers:
    """Rows of predictions as JSON.

    Parameters
    ----------
    names : sequence of str
        Of the columns that are kept, then of those of predictions.
    id_of : callable
        Returns what identifies the row with a line number, or None.
    """

    def __init__(self, names: Sequence[str], id_of: Callable[[int], Any]) -> None:
        self._names, self._id_of = names, id_of

    def rows(
        self, line_numbers: Sequence[int], texts: np.ndarray, columns: Sequence[np.ndarray]
    ) -> Iterator[dict[str, Any]]:
        """Yield each row: its number, its id if it has one, kept texts, predictions; None where there is none."""
        for line, kept, values in zip(
            line_numbers, texts.tolist(), np.column_stack(columns).tolist(), strict=True
        ):
            row: dict[str, Any] = {"line": line}
            identity = self._id_of(line)
            if identity is not None:
                row["id"] = identity
            cells = [*kept, *(v if v == v else None for v in values)]
            row.update(zip(self._names, cells, strict=True))
            yield row

    def lines(
        self, line_numbers: Sequence[int], texts: np.ndarray, columns: Sequence[np.ndarray]
    ) -> Iterator[str]:
        """Yield each row as JSON."""
        return (json.dumps(row, ensure_ascii=False) for row in self.rows(line_numbers, texts, columns))
