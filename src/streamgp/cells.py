"""Which cell of a table that a user handed in is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

# How the types of columns that hold times begin, in pandas and polars.
_TIMES = ("date", "time", "period", "duration")


def refuse_times(X: Any, name: str) -> None:
    """Raise TypeError where columns of a frame hold times, which are no numbers; it names them and the remedy."""
    if not hasattr(X, "columns") or not hasattr(X, "dtypes"):
        return
    kinds = [str(kind).lower() for kind in X.dtypes]
    times = [repr(c) for c, kind in zip(X.columns, kinds, strict=True) if kind.startswith(_TIMES)]
    if times:
        raise TypeError(
            f"{name} has times in the columns {', '.join(times[:5])}: make numbers of them with "
            "streamgp.columns.StreamColumns(time=…), or leave them out."
        )


def first_bad_cell(X: Any) -> str:
    """Return where in a table the first cell is that is not a finite number; empty where that cannot be told."""
    try:
        frame = hasattr(X, "columns")
        columns = list(X.columns) if frame else range(np.asarray(X, dtype=object).shape[1])
        for name in columns:
            cells = np.asarray(X[name] if frame else np.asarray(X, dtype=object)[:, name], dtype=object)
            for i, cell in enumerate(cells):
                if not _is_finite_number(cell):
                    remedy = " For categories there is streamgp.columns.StreamColumns(categorical=…)."
                    place = f" Row {i}, column {name!r}: {str(cell)[:60]!r}."
                    return place + remedy if frame and isinstance(cell, str) else place
    except (IndexError, KeyError, TypeError, ValueError):
        return ""  # no table: the error that is being raised says so
    return ""


def _is_finite_number(cell: object) -> bool:
    try:
        return bool(np.isfinite(float(cell)))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
