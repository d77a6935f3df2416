"""Raw rows as the model takes them: columns as numbers; rows that it cannot take become bad ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..columns import StreamColumns
from ..errors import InputError
from .tables import BadRow, TableRows


def as_numbers(columns: StreamColumns, batch: TableRows, steps: np.ndarray | None) -> TableRows:
    """Return a batch with raw rows turned into numbers, `columns` moved on; rows without a readable time become bad.

    `steps` (b,) say how many rows each is behind the next one, None that they follow each other.
    """
    state = columns.state_
    table = {name: batch.X[:, j] for j, name in enumerate(state.numbers)}
    table |= {name: batch.texts[:, j] for j, name in enumerate(state.texts)}
    try:
        return replace(batch, X=columns.arrive(table, batch.y, steps=steps))
    except InputError:
        wrong = state.unreadable(table)
        if not wrong:
            raise
        good = np.array([i not in wrong for i in range(len(batch.line_numbers))])
        left = with_bad(batch, good, wrong)
        return as_numbers(columns, left, None if steps is None else steps[good]) if good.any() else left


def without_gaps(batch: TableRows, names: Sequence[str]) -> TableRows:
    """Return a batch with its rows of missing features, which have these names, among the bad ones."""
    gaps = np.isnan(batch.X)
    if not gaps.any():
        return batch
    rows = np.flatnonzero(gaps.any(axis=1))
    reasons = {int(i): f"{names[np.flatnonzero(gaps[i])[0]]} is missing" for i in rows}
    return with_bad(batch, ~gaps.any(axis=1), reasons)


def with_features(batch: TableRows) -> tuple[TableRows, int]:
    """Return the rows that have a feature, and how many have none: a model cannot begin with them, none learns them."""
    has_features = np.isfinite(batch.X).any(axis=1)
    return batch.only(has_features), int((~has_features).sum())


def with_weights(batch: TableRows) -> TableRows:
    """Return a batch with the last column of `y` as weights; rows with a label and no weight become bad.

    The weight of a row without a label tells nothing: it is one.
    """
    y, weights = batch.y[:, :-1], batch.y[:, -1]
    labelled = np.isfinite(y).any(axis=1)
    lacks = labelled & np.isnan(weights)
    batch = replace(batch, y=y, weights=np.where(labelled, weights, 1.0))
    return with_bad(batch, ~lacks, {int(i): "its weight is missing" for i in np.flatnonzero(lacks)})


def with_bad(batch: TableRows, good: np.ndarray, reasons: Mapping[int, str]) -> TableRows:
    """Return the good rows (b,) of a batch, and the others, with their reasons, among its bad ones."""
    bad = [BadRow(batch.line_numbers[i], why, batch.text_of(i)) for i, why in reasons.items()]
    return replace(batch.only(good), bad=sorted([*batch.bad, *bad], key=lambda row: row.line))
