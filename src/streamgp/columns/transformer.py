"""StreamColumns: scikit-learn's contract for `ColumnState`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self
from zoneinfo import ZoneInfo

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from ..errors import InputError, ParameterError
from .lagged import Lagged
from .levels import Levels
from .state import ColumnState
from .tables import columns_of, names_of
from .times import DEFAULT_KINDS, KINDS, Clock


class StreamColumns(TransformerMixin, BaseEstimator):
    """Rows with times, categories and values of earlier rows as numbers, learned row by row.

    Parameters
    ----------
    time : name or names
        Columns that hold the time together: one, date and clock, or year, month, day and so on. Any usual spelling,
        seconds since 1970, or `time_format`.
    categorical : names
        Columns of categories, each a column of 0 and 1 for the first `levels` of them; others share `shared` columns.
    lags : whole numbers
        A row is given the targets of rows so many before it, as far as they are known then.
    lags_of : dict, name to whole numbers
        A row is given values of a column in earlier rows.
    numeric : names, optional
        Columns that are given as they are; by default all others of the first table.
    targets : names
        Of the targets, for `lags`.
    time_as : some of "day", "week", "year", "trend"
        What a time is given as: sine and cosine of its place in a day, a week and a year, by the clock on the wall;
        days since the first row.
    time_format : str, optional
        Of `datetime.strptime`.
    time_zone : str, optional
        Such as "Europe/Rome": times with an offset are converted to it, others are times of it.
    levels, shared : int
        Memory and columns are bounded by both, however many categories come.

    Attributes
    ----------
    state_ : ColumnState
        All that was learned; replaced, never changed.

    Notes
    -----
    The order of rows counts: `transform` takes its rows to be those that come after the ones that were learned.
    `partial_fit` moves on. `arrive` does both, for a row that is predicted now and whose target comes later
    (`label`).

    Examples
    --------
    >>> import numpy as np
    >>> from streamgp.columns import StreamColumns
    >>> columns = StreamColumns(time="when", categorical=["mode"], lags=[1], levels=2, shared=1, time_as=["day"])
    >>> rows = {"when": ["2026-01-05 06:00", "2026-01-05 18:00"], "mode": ["on", "off"], "load": [1.5, 2.5]}
    >>> columns.fit_transform(rows, np.array([7.0, 8.0])).round(3) + 0.0
    array([[ 1.5,  1. ,  0. ,  1. ,  0. ,  0. ,  nan],
           [ 2.5, -1. ,  0. ,  0. ,  1. ,  0. ,  7. ]])
    >>> list(columns.get_feature_names_out())
    ['load', 'day_sin', 'day_cos', 'mode=on', 'mode=off', 'mode=other', 'y_lag1']
    """

    def __init__(
        self,
        time: str | Sequence[str] = (),
        categorical: str | Sequence[str] = (),
        lags: Sequence[int] = (),
        lags_of: Mapping[str, Sequence[int]] | None = None,
        *,
        numeric: Sequence[str] | None = None,
        targets: Sequence[str] = ("y",),
        time_as: Sequence[str] = DEFAULT_KINDS,
        time_format: str | None = None,
        time_zone: str | None = None,
        levels: int = 12,
        shared: int = 4,
    ) -> None:
        self.time, self.categorical, self.lags, self.lags_of = time, categorical, lags, lags_of
        self.numeric, self.targets, self.levels, self.shared = numeric, targets, levels, shared
        self.time_as, self.time_format, self.time_zone = time_as, time_format, time_zone

    def begin(self, names: Sequence[str]) -> Self:
        """Forget everything; the first row of a table with these columns comes next."""
        self.state_ = self._state_before(names)
        return self

    def _state_before(self, names: Sequence[str]) -> ColumnState:
        """Return the state before the first row of a table; raise ParameterError if its columns do not fit."""
        time, categorical = _names(self.time), _names(self.categorical)
        lags_of = {} if self.lags_of is None else dict(self.lags_of)
        for flag, chosen in (("time", time), ("categorical", categorical), ("lags_of", tuple(lags_of))):
            for name in chosen:
                if name not in names:
                    raise ParameterError(f"{flag}={name!r} is none of the columns {', '.join(names[:20])}")
        for kind in _names(self.time_as):
            if kind not in KINDS:
                raise ParameterError(f"time_as={kind!r} is none of {', '.join(KINDS)}")
        for name, value in (("levels", self.levels), ("shared", self.shared)):
            if value < 1:
                raise ParameterError(f"{name}={value} must be 1 or more")
        rest = [name for name in names if name not in (*time, *categorical)]
        groups: dict[tuple[int, ...], list[str]] = {}
        for name, lags in lags_of.items():
            groups.setdefault(_lags(lags, f"lags_of[{name!r}]"), []).append(name)
        own = _lags(self.lags, "lags")
        return ColumnState(
            numeric=tuple(rest) if self.numeric is None else _names(self.numeric),
            clock=self._clock(time),
            levels=tuple(Levels(name, self.levels, self.shared) for name in categorical),
            lagged=tuple(Lagged.none(tuple(of), lags) for lags, of in groups.items() if lags),
            targets=Lagged.none(_names(self.targets), own) if own else None,
        )

    def _clock(self, time: tuple[str, ...]) -> Clock | None:
        if not time:
            return None
        if self.time_zone is not None:
            try:
                ZoneInfo(self.time_zone)
            except (KeyError, OSError, ValueError) as error:
                raise ParameterError(
                    f"time_zone={self.time_zone!r} is not known; try 'Europe/Rome'"
                ) from error
        return Clock(
            time, tuple(k for k in KINDS if k in _names(self.time_as)), self.time_format, self.time_zone
        )

    def _moved(self, X: Any, y: Any, steps: Any = None) -> tuple[np.ndarray, ColumnState]:
        """Return the features of rows, and the state after them."""
        state = getattr(self, "state_", None) or self._state_before(names_of(X))
        table = columns_of(X, state.numbers, state.texts)
        if not table or not len(next(iter(table.values()))):
            raise InputError("the table has no rows or no columns")
        return state.advance(table, None if y is None else np.asarray(y, dtype=float), steps)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows, the first ones of the stream; what was learned before is forgotten."""
        self.__dict__.pop("state_", None)
        return self.partial_fit(X, y)

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Return the first rows of a stream as numbers (b, d), and learn from them."""
        self.__dict__.pop("state_", None)
        return self.arrive(X, y)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from the rows that come next, with their targets (b,) or (b, q), NaN where one is missing."""
        self.arrive(X, y)
        return self

    def arrive(self, X: Any, y: Any = None, *, steps: Any = None) -> np.ndarray:
        """Return the rows that come next as numbers (b, d), and move on; targets that are not known come by `label`.

        `steps` (b,) says how many rows each is behind the next one, where some are left out: 0, 1, 2, … by default.
        """
        features, self.state_ = self._moved(X, y, steps)
        return features

    def transform(self, X: Any) -> np.ndarray:
        """Return the rows that come next as numbers (b, d), and stay."""
        if not hasattr(self, "state_"):
            raise NotFittedError("this StreamColumns has learned nothing yet; call fit or partial_fit first")
        return self._moved(X, None)[0]

    def label(self, rows: Any, y: Any) -> Self:
        """Learn the targets (b,) or (b, q) of rows that came before, by their numbers; that of the first is 0."""
        rows = np.asarray(rows, dtype=np.int64)
        self.state_ = self.state_.labelled(rows, np.asarray(y, dtype=float).reshape(rows.size, -1))
        return self

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns that a row is turned into."""
        return np.array(self.state_.features, dtype=object)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, texts, tuples and arrays, for `gp.save(path, columns=…)`."""
        return {"parameters": _plain(self.get_params()), "state": self.state_.to_dict()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the transformer of which `to_dict` returned `content`."""
        out = cls(**content["parameters"])
        out.state_ = ColumnState.from_dict(content["state"])
        return out


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(str(name) for name in given)


def _lags(given: Sequence[int], name: str) -> tuple[int, ...]:
    """Return lags in order, each once; raise ParameterError for one that is no row before."""
    for lag in given:
        if int(lag) != lag or lag < 1:
            raise ParameterError(f"{name}: {lag} must be a whole number of 1 or more")
    return tuple(sorted({int(lag) for lag in given}))


def _plain(value: Any) -> Any:
    """Return parameters as checkpoints hold them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str) or not isinstance(value, Sequence):
        return value
    return tuple(_plain(item) for item in value)
