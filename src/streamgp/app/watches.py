"""What an alarm looks at: the last rows of a target, of its errors or of the columns, and whether the alarm is on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from .drift import Drift


class Bound(Protocol):
    """A statistic, the rows that it is taken of, and when it is beyond its bound."""

    @property
    def kind(self) -> str:
        """Name of the statistic."""

    @property
    def bound(self) -> float:
        """What the statistic is compared with."""

    @property
    def relative(self) -> bool:
        """Whether the bound is a multiple of the RMSE before."""

    @property
    def over(self) -> int:
        """Number of rows."""

    def holds(self, statistic: np.ndarray) -> np.ndarray:
        """Return whether the statistic is beyond the bound; False for NaN."""


class Found(NamedTuple):
    """An alarm: the row that raises it, the column (of missing values), its statistic, and what drift is like."""

    row: int
    column: int
    value: float
    how: str = ""


class Watch(Protocol):
    """What a rule looks at; immutable."""

    def step(self, rule: Bound, values: np.ndarray) -> tuple[Watch, list[Found]]:
        """Return it after rows, and what raises an alarm."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers and arrays, for a checkpoint."""

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Watch:
        """Return that of which `to_dict` returned `content`."""


@dataclass(frozen=True)
class Latch:
    """Which of k alarms are on: each is raised once, and again only after `over` rows in which its rule did not hold.

    Attributes
    ----------
    on, calm : (k,)
        Whether it is on, and the number of rows since its rule held.
    """

    on: np.ndarray
    calm: np.ndarray

    @classmethod
    def off(cls, k: int) -> Latch:
        """Return k alarms that are off."""
        return cls(np.zeros(k, dtype=bool), np.zeros(k, dtype=np.int64))

    def step(self, holds: np.ndarray, over: int) -> tuple[Latch, list[tuple[int, int]]]:
        """Return the latch after rows in which the rules hold or not, (b, k); row and rule of alarms raised."""
        if not holds.any() and not self.on.any():
            return self, []
        on, calm, raised = self.on, self.calm, []
        for i, now in enumerate(holds):
            raised += [(i, int(j)) for j in np.flatnonzero(now & ~on)]
            calm = np.where(now, 0, calm + 1)
            on = now | (on & (calm < over))
        return Latch(on, calm), raised


@dataclass(frozen=True)
class Window:
    """What a rule about the scores of a target looks at.

    Attributes
    ----------
    rows : (n, 2)
        Errors of the last rows, and whether targets lay inside their interval.
    count, squares : int, float
        Number of the rows before, and the sum of their squared errors.
    latch : Latch
    """

    rows: np.ndarray = field(default_factory=lambda: np.zeros((0, 2)))
    count: int = 0
    squares: float = 0.0
    latch: Latch = field(default_factory=lambda: Latch.off(1))

    def step(self, rule: Bound, values: np.ndarray) -> tuple[Window, list[Found]]:
        """Return the window after rows (b, 2), and what raises an alarm."""
        rows = values
        over, known = rule.over, np.concatenate([self.rows, rows])
        left = max(0, len(known) - over)
        squares = np.cumsum([self.squares, *(known[:left, 0] ** 2)])
        statistic = np.full(len(rows), np.nan)
        if len(known) >= over:
            full = np.lib.stride_tricks.sliding_window_view(known, over, axis=0)[-len(rows) :]
            found = _statistic(rule.kind, full)
            if rule.relative:
                before = np.arange(len(full)) + left + 1 - len(full)
                count = self.count + before
                usual = np.sqrt(squares[before] / np.maximum(count, 1))
                comparable = (count >= over) & (usual > 0)
                found = np.where(comparable, found / np.where(comparable, usual, 1.0), np.nan)
            statistic[len(rows) - len(found) :] = found
        latch, raised = self.latch.step(rule.holds(statistic)[:, None], over)
        later = Window(known[left:], self.count + left, float(squares[-1]), latch)
        return later, [Found(i, j, float(statistic[i])) for i, j in raised]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers and arrays, for a checkpoint."""
        return {
            "rows": self.rows, "count": self.count, "squares": self.squares,
            "on": self.latch.on, "calm": self.latch.calm,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Return the window of which `to_dict` returned `content`."""
        latch = Latch(content["on"], content["calm"])
        return cls(content["rows"], content["count"], content["squares"], latch)


def _statistic(kind: str, full: np.ndarray) -> np.ndarray:
    """Return coverage, RMSE or the size of the mean error of windows (m, 2, over)."""
    if kind == "coverage":
        return np.asarray(full[:, 1].mean(axis=-1))
    errors = full[:, 0]
    return np.asarray(np.sqrt((errors**2).mean(axis=-1)) if kind == "rmse" else np.abs(errors.mean(axis=-1)))


@dataclass(frozen=True)
class Silence:
    """What a rule about missing values looks at: which values of the last rows were missing, (n, d)."""

    missing: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))
    latch: Latch = field(default_factory=lambda: Latch.off(0))

    @classmethod
    def of(cls, d: int) -> Silence:
        """Return that of d columns before the first row."""
        return cls(np.zeros((0, d), dtype=bool), Latch.off(d))

    def step(self, rule: Bound, values: np.ndarray) -> tuple[Silence, list[Found]]:
        """Return it after rows (b, d), and what raises an alarm."""
        over, missing, known = rule.over, values, np.concatenate([self.missing, values])
        share = np.full(missing.shape, np.nan)
        if len(known) >= over:
            sums = np.cumsum(np.pad(known, ((1, 0), (0, 0))), axis=0, dtype=np.int64)
            found = (sums[over:] - sums[:-over])[-len(missing) :] / over
            share[len(missing) - len(found) :] = found
        latch, raised = self.latch.step(rule.holds(share), over)
        return Silence(known[-over:], latch), [Found(i, j, float(share[i, j])) for i, j in raised]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as arrays, for a checkpoint."""
        return {"missing": self.missing, "on": self.latch.on, "calm": self.latch.calm}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Return that of which `to_dict` returned `content`."""
        return cls(content["missing"], Latch(content["on"], content["calm"]))


@dataclass(frozen=True)
class DriftWatch:
    """The test of a rule about drift; it begins anew after an alarm, with the errors that follow as its reference."""

    test: Drift = field(default_factory=Drift)

    def step(self, rule: Bound, values: np.ndarray) -> tuple[DriftWatch, list[Found]]:
        """Return it after errors (b,) in predicted standard deviations, and what raises an alarm."""
        test, raised, i, most = self.test, [], 0, float(np.log(rule.bound))
        while i < len(values):
            test, taken = test.add(values[i:], most)
            i += taken
            if test.log_evidence > most:
                raised.append(Found(i - 1, 0, test.log_evidence, test.how))
                test = Drift()
        return DriftWatch(test), raised

    def to_dict(self) -> dict[str, Any]:
        """Return everything as arrays, for a checkpoint."""
        return self.test.to_dict()

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Return that of which `to_dict` returned `content`."""
        return cls(Drift.from_dict(content))
