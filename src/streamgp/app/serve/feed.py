"""What the page and the metrics show of a stream: the last rows, scores along the stream, alarms; in bounded memory."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..predictions import RowPredictions

# Rows that the page draws; at five points a pixel a wide screen holds no more.
POINTS = 600
# Stretches of the curves of error and coverage; neighbours are added up in pairs when there are more.
STRETCHES = 200
ALARMS = 50


class Point(NamedTuple):
    """A row with its label: number, time, and for each target what was measured, predicted, and the interval."""

    number: int
    time: float
    measured: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class Stretch(NamedTuple):
    """Sums over consecutive rows, (q,) each: rows scored, squared errors, those of the last value, rows inside."""

    last: int
    scored: np.ndarray
    squared_error: np.ndarray
    baseline: np.ndarray
    covered: np.ndarray
    width: np.ndarray

    def merge(self, later: Stretch) -> Stretch:
        """Return the sums over both."""
        sums = (mine + theirs for mine, theirs in zip(self[1:], later[1:], strict=True))
        return Stretch(later.last, *sums)


class Alarm(NamedTuple):
    """Something that a person should look at."""

    number: int
    time: float
    row: int
    kind: str
    text: str


@dataclass
class Feed:
    """The stream as a person watches it. One thread adds, others read.

    Attributes
    ----------
    targets : tuple of str
    level : float
        Probability of the intervals.
    rows : int
        Rows with a label so far.
    points, stretches, alarms
        See the classes; a stretch has `stride` rows or more.
    before : (q,)
        The last label of each target, which is the baseline's prediction of the next; NaN before the first.
    alarmed : int
        Alarms so far.
    """

    targets: tuple[str, ...]
    level: float
    rows: int = 0
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=POINTS))
    stretches: list[Stretch] = field(default_factory=list)
    alarms: deque[Alarm] = field(default_factory=lambda: deque(maxlen=ALARMS))
    stride: int = 50
    before: np.ndarray = field(default_factory=lambda: np.zeros(0))
    alarmed: int = 0

    def __post_init__(self) -> None:
        if not self.before.size:
            self.before = np.full(len(self.targets), np.nan)
        self._lock = threading.Lock()

    def add(self, y: np.ndarray, said: RowPredictions, learned: np.ndarray) -> None:
        """Add rows with their labels (b, q) and what was said of them; the `learned` ones, (b,), are scored."""
        now, known = time.time(), np.isfinite(y) & np.isfinite(said.mean) & learned[:, None]
        before = self._baseline(y, learned)
        with np.errstate(over="ignore", invalid="ignore"):
            stretch = Stretch(
                self.rows + y.shape[0],
                known.sum(axis=0).astype(float),
                np.where(known, (y - said.mean) ** 2, 0.0).sum(axis=0),
                np.where(known & np.isfinite(before), (y - before) ** 2, 0.0).sum(axis=0),
                (known & (said.low <= y) & (y <= said.high)).sum(axis=0).astype(float),
                np.where(known, said.high - said.low, 0.0).sum(axis=0),
            )
        parts = [v.tolist() for v in (y, said.mean, said.low, said.high)]
        with self._lock:
            for i in range(y.shape[0]):
                self.points.append(Point(self.rows + i + 1, now, *(tuple(part[i]) for part in parts)))
            self.rows += y.shape[0]
            self._add_stretch(stretch)

    def _baseline(self, y: np.ndarray, learned: np.ndarray) -> np.ndarray:
        """Return the last label before each row, (b, q)."""
        out = np.empty_like(y)
        for i, row in enumerate(y):
            out[i] = self.before
            if learned[i]:
                self.before = np.where(np.isfinite(row), row, self.before)
        return out

    def _add_stretch(self, new: Stretch) -> None:
        """Add to the last stretch until it is full."""
        begun = self.stretches[-2].last if len(self.stretches) > 1 else 0
        if self.stretches and self.stretches[-1].last - begun < self.stride:
            new = self.stretches.pop().merge(new)
        self.stretches.append(new)
        if len(self.stretches) > STRETCHES:
            parts = [self.stretches[i : i + 2] for i in range(0, len(self.stretches), 2)]
            self.stretches = [part[0].merge(part[1]) if len(part) == 2 else part[0] for part in parts]
            self.stride *= 2

    def alarm(self, kind: str, text: str, row: int | None = None) -> None:
        """Add an alarm, about the last row unless another is given."""
        with self._lock:
            self.alarmed += 1
            self.alarms.append(
                Alarm(self.alarmed, time.time(), self.rows if row is None else row, kind, text)
            )

    def recent(self, last: int = 1000) -> Stretch | None:
        """Return the sums over about the last rows; None before any was scored."""
        total = None
        for stretch in reversed(list(self.stretches)):
            total = stretch if total is None else stretch.merge(total)
            if total.scored.max() >= last:
                break
        return total if total is not None and total.scored.any() else None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, arrays and tuples, for a checkpoint."""
        with self._lock:
            return {
                "rows": self.rows, "stride": self.stride, "before": self.before, "alarmed": self.alarmed,
                "points": [tuple(p) for p in self.points], "alarms": [tuple(a) for a in self.alarms],
                "stretches": [tuple(s) for s in self.stretches],
            }  # fmt: skip

    @classmethod
    def from_dict(cls, targets: tuple[str, ...], level: float, content: dict[str, Any]) -> Feed:
        """Return the feed of which `to_dict` returned `content`."""
        points = deque((Point(*p) for p in content["points"]), maxlen=POINTS)
        alarms = deque((Alarm(*a) for a in content["alarms"]), maxlen=ALARMS)
        stretches = [Stretch(*s) for s in content["stretches"]]
        return cls(targets, level, **{**content, "points": points, "alarms": alarms, "stretches": stretches})

    def told(self, after: int = 0) -> dict[str, Any]:
        """Return what the page draws, as JSON: points after that number, all stretches and alarms."""
        with self._lock:
            points = [p for p in self.points if p.number > after]
            stretches, alarms, rows = list(self.stretches), list(self.alarms), self.rows
        recent = self.recent()
        return {
            "rows": rows,
            "points": [
                [p.number, round(p.time, 3), *map(_numbers, (p.measured, p.mean, p.low, p.high))]
                for p in points
            ],
            "recent": None if recent is None else _curve(recent),
            "stretches": [_curve(s) for s in stretches if s.scored.any()],
            "alarms": [dict(zip(("number", "time", "row", "kind", "text"), a, strict=True)) for a in alarms],
        }


def _curve(s: Stretch) -> list[Any]:
    """Return the last row of a stretch, then for each target RMSE, that of the baseline, and the coverage."""
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = (np.sqrt(s.squared_error / s.scored), np.sqrt(s.baseline / s.scored), s.covered / s.scored)
    return [s.last, *(_numbers(part.tolist()) for part in parts)]


def _numbers(values: Sequence[float]) -> list[float | None]:
    """Return numbers for JSON: six digits, null for what is not finite."""
    return [float(f"{v:.6g}") if np.isfinite(v) else None for v in values]
