"""What a stream's columns have shown so far; `advance` turns rows into numbers and moves on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError
from .lagged import Lagged
from .levels import Levels
from .times import Clock

# Columns of a table, (b,) each: numbers as floats, others as texts.
Table = Mapping[str, Any]


@dataclass(frozen=True)
class ColumnState:
    """All that is known of the columns of a stream; an update returns a new one.

    Attributes
    ----------
    numeric : tuple of str
        Columns that are given as they are.
    clock : Clock or None
    levels : tuple of Levels
    lagged : tuple of Lagged
        Of columns, one for each list of lags.
    targets : Lagged or None
        Of the targets.
    row : int
        Number of the row that comes next.
    """

    numeric: tuple[str, ...]
    clock: Clock | None = None
    levels: tuple[Levels, ...] = ()
    lagged: tuple[Lagged, ...] = ()
    targets: Lagged | None = None
    row: int = 0

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the columns that are read as numbers."""
        return tuple(dict.fromkeys([*self.numeric, *(name for part in self.lagged for name in part.names)]))

    @property
    def texts(self) -> tuple[str, ...]:
        """Names of the columns that are read as texts."""
        times = () if self.clock is None else self.clock.names
        return tuple(dict.fromkeys([*times, *(part.name for part in self.levels)]))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns that a row is turned into."""
        lagged = [name for part in self._lagged_parts for name in part.features]
        clock = () if self.clock is None else self.clock.features
        return (*self.numeric, *clock, *(name for part in self.levels for name in part.features), *lagged)

    @property
    def _lagged_parts(self) -> tuple[Lagged, ...]:
        return self.lagged if self.targets is None else (*self.lagged, self.targets)

    def advance(
        self, table: Table, y: np.ndarray | None = None, steps: np.ndarray | None = None
    ) -> tuple[np.ndarray, ColumnState]:
        """Return rows as numbers (b, d), NaN where a value is not known, and the state after them.

        `y` (b, q) are their targets, as far as they are known; a row is only given those of earlier rows. `steps` (b,)
        say how many rows each is behind the one that comes next: 0, 1, 2, … by default.

        Raise InputError if a time cannot be read; `unreadable` says in which rows.
        """
        n = len(next(iter(table.values())))
        rows = self.row + (np.arange(n) if steps is None else np.asarray(steps, dtype=np.int64))
        parts = [np.asarray(table[name], dtype=float)[:, None] for name in self.numeric]
        clock = self.clock
        if clock is not None:
            given, clock = self._times(clock, table)
            parts.append(given)
        levels = tuple(part.learned(table[part.name]) for part in self.levels)
        parts += [part.given(table[part.name]) for part in levels]
        lagged = tuple(
            part.add(rows, np.stack([np.asarray(table[name], dtype=float) for name in part.names], axis=1))
            for part in self.lagged
        )
        parts += [part.given(rows) for part in lagged]
        targets = self.targets
        if targets is not None:
            known = np.full((n, len(targets.names)), np.nan) if y is None else np.asarray(y, dtype=float)
            targets = targets.add(rows, known.reshape(n, -1))
            parts.append(targets.given(rows))
        row = int(rows[-1]) + 1 if n else self.row
        after = replace(
            self, clock=clock, levels=levels, lagged=tuple(part.cut(row) for part in lagged),
            targets=targets and targets.cut(row), row=row,
        )  # fmt: skip
        return np.concatenate(parts, axis=1) if parts else np.empty((n, 0)), after

    def labelled(self, rows: np.ndarray, y: np.ndarray) -> ColumnState:
        """Return the state that knows targets (b, q), NaN where one is missing, of rows (b,) that came before."""
        return self if self.targets is None else replace(self, targets=self.targets.set(rows, y))

    def _times(self, clock: Clock, table: Table) -> tuple[np.ndarray, Clock]:
        texts = _time_texts(clock, table)
        clock = clock.learned(texts)
        seconds, shown, wrong = clock.read(texts)
        if wrong:
            what = _no_time(clock, texts[wrong[0]])
            raise InputError(f"row {wrong[0]}: {what}; mend it, or name the format of times")
        return clock.given(seconds, shown)

    def unreadable(self, table: Table) -> dict[int, str]:
        """Return the rows whose time cannot be read, each with what is wrong."""
        if self.clock is None:
            return {}
        texts = _time_texts(self.clock, table)
        clock = self.clock.learned(texts)
        return {i: _no_time(clock, texts[i]) for i in clock.read(texts)[2]}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, texts, tuples and arrays, for a checkpoint."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ColumnState:
        """Return the state of which `to_dict` returned `content`."""
        clock, targets = content["clock"], content["targets"]
        parts = {
            "clock": None if clock is None else Clock(**clock),
            "levels": tuple(Levels(**part) for part in content["levels"]),
            "lagged": tuple(Lagged(**part) for part in content["lagged"]),
            "targets": None if targets is None else Lagged(**targets),
        }
        return cls(**{**content, **parts})


def _time_texts(clock: Clock, table: Table) -> list[str]:
    return clock.joined([[str(cell).strip() for cell in table[name]] for name in clock.names])


def _no_time(clock: Clock, text: str) -> str:
    return f"{','.join(clock.names)}={text[:60]!r} is not a time"
