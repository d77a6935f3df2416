"""Columns of data frames, of dictionaries and of lists of rows, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError, InputTypeError


def names_of(X: Any) -> list[str]:
    """Return the names of the columns of a table; those of an array are its numbers."""
    if isinstance(X, Mapping):
        return [str(name) for name in X]
    if isinstance(X, Sequence) and X and isinstance(X[0], Mapping):
        return [str(name) for name in dict.fromkeys(name for row in X for name in row)]
    if hasattr(X, "columns"):
        return [str(name) for name in X.columns]
    if getattr(X, "ndim", 0) != 2:
        raise InputTypeError(
            f"a table is a DataFrame, a dictionary of columns or a list of rows, not {type(X).__name__}"
        )
    return [str(i) for i in range(X.shape[1])]


def columns_of(X: Any, numbers: Sequence[str], texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Return columns (b,) of a table: floats, NaN where a value is missing, and texts, empty where one is."""
    found = {name: _column(X, name) for name in dict.fromkeys([*numbers, *texts])}
    if len({len(values) for values in found.values()}) > 1:
        raise InputError("the columns of the table have different lengths")
    given = {name: _floats(found[name], name) for name in numbers}
    return given | {name: np.array([_text(cell) for cell in found[name]], dtype=object) for name in texts}


def _column(X: Any, name: str) -> np.ndarray:
    if isinstance(X, Sequence) and X and isinstance(X[0], Mapping):
        return np.array([row.get(name) for row in X], dtype=object)
    if name not in (known := names_of(X)):
        raise InputError(f"the table lacks the column {name!r}; it has {', '.join(known[:20])}")
    if not isinstance(X, Mapping) and not hasattr(X, "columns"):
        return np.asarray(X[:, int(name)], dtype=object)
    by_text = {str(key): key for key in (X if isinstance(X, Mapping) else X.columns)}
    values = X[by_text[name]]
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)


def _floats(values: np.ndarray, name: str) -> np.ndarray:
    try:
        if values.dtype.kind not in "biufO":
            raise TypeError(values.dtype)
        return np.asarray(
            [np.nan if v is None else v for v in values] if values.dtype == object else values, dtype=float
        )
    except (TypeError, ValueError) as error:
        raise InputError(
            f"column {name!r} does not hold numbers ({error}); name it as `time` or `categorical`, or leave it out of "
            "`numeric`"
        ) from error


def _text(cell: Any) -> str:
    """Return a cell as text; empty for None, NaN and NaT, which differ from themselves."""
    return "" if cell is None or cell != cell else str(cell).strip()
