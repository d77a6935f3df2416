"""A run over a table: predict each batch, score it, learn it, write it down, and be able to go on after any end."""

from __future__ import annotations

import copy
import json
import math
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import scipy.special

from ..errors import DataError, InputError, NumericalError
from ..regressor import StreamingGPRegressor
from .outputs import Writer, open_at, synced
from .tables import BadRow, Place, Rows

# Points of the curves in a report; older ones are joined in pairs when there are more.
POINTS = 400
# Rows that the live figures look back on.
ROLLING = 1000
# Bins of the histograms in a report.
BINS = 20


@dataclass
class Tally:
    """What a run has seen: bounded, and the same whether or not it was interrupted (but for seconds).

    Attributes
    ----------
    rows, learned, unlabelled, impossible, bad
        Counts; `bad` by reason's first word.
    scored, squared, covered, density, total, total_squares : (q,)
        Over labelled rows that were predicted: how many, sums of squared errors, of those inside the interval, of
        negative log densities, of targets and of their squares about `origin`.
    uniform : (q, BINS)
        How often targets fell into each twentieth of their predicted distribution.
    history : list of (batches, last row, rows scored, squared error over spread, covered, seconds, rank, share)
    """

    n_targets: int
    rows: int = 0
    learned: int = 0
    unlabelled: int = 0
    impossible: int = 0
    bad: int = 0
    seconds: float = 0.0
    scored: np.ndarray = field(default_factory=lambda: np.zeros(0))
    squared: np.ndarray = field(default_factory=lambda: np.zeros(0))
    covered: np.ndarray = field(default_factory=lambda: np.zeros(0))
    density: np.ndarray = field(default_factory=lambda: np.zeros(0))
    origin: np.ndarray = field(default_factory=lambda: np.zeros(0))
    total: np.ndarray = field(default_factory=lambda: np.zeros(0))
    total_squares: np.ndarray = field(default_factory=lambda: np.zeros(0))
    uniform: np.ndarray = field(default_factory=lambda: np.zeros((0, BINS)))
    history: list[tuple[float, ...]] = field(default_factory=list)
    stride: int = 1
    rolling: deque[tuple[int, float, float]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        if not self.scored.size:
            for name in ("scored", "squared", "covered", "density", "origin", "total", "total_squares"):
                setattr(self, name, np.zeros(self.n_targets))
            self.uniform = np.zeros((self.n_targets, BINS))

    def state(self) -> dict[str, Any]:
        """Give all of it as numbers, lists and arrays, for a checkpoint."""
        return {**self.__dict__, "rolling": list(self.rolling), "history": list(self.history)}

    @classmethod
    def of(cls, state: dict[str, Any]) -> Tally:
        """Go on from `state`."""
        return cls(**{**state, "rolling": deque(state["rolling"]), "history": list(state["history"])})

    @property
    def spread(self) -> np.ndarray:
        """The standard deviation of each target so far; one where it is not known."""
        n = np.maximum(self.scored, 1)
        variance = self.total_squares / n - (self.total / n) ** 2
        return np.sqrt(np.where(variance > 0, variance, 1.0))

    @property
    def rmse(self) -> np.ndarray:
        """The error of each target; NaN before any was scored."""
        return np.sqrt(self.squared / np.where(self.scored > 0, self.scored, np.nan))

    def score(
        self, y: np.ndarray, mean: np.ndarray, std: np.ndarray, half: np.ndarray
    ) -> tuple[float, float, float]:
        """Count labelled rows, each (b, q), NaN where a label is missing; give rows, error over spread, covered."""
        known = np.isfinite(y)
        if not known.any():
            return 0.0, 0.0, 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            return self._score(y, known, mean, std, half)

    def _score(
        self, y: np.ndarray, known: np.ndarray, mean: np.ndarray, std: np.ndarray, half: np.ndarray
    ) -> tuple[float, float, float]:
        first = self.scored == 0
        if first.any():
            # Squares about a typical target: about zero they would cancel.
            typical = np.where(known, y, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
            self.origin = np.where(first, typical, self.origin)
        error = np.where(known, y - mean, 0.0)
        std = np.maximum(std, np.finfo(np.float64).tiny)
        inside = known & (np.abs(error) <= half)
        z = error / std
        density = 0.5 * z**2 + np.log(std) + 0.5 * math.log(2 * math.pi)
        away = np.where(known, y - self.origin, 0.0)
        self.scored += known.sum(axis=0)
        self.squared += (error**2).sum(axis=0)
        self.covered += inside.sum(axis=0)
        self.density += np.where(known, density, 0.0).sum(axis=0)
        self.total += away.sum(axis=0)
        self.total_squares += (away**2).sum(axis=0)
        place = np.clip((scipy.special.ndtr(z) * BINS).astype(int), 0, BINS - 1)
        for j in range(self.n_targets):
            self.uniform[j] += np.bincount(place[known[:, j], j], minlength=BINS)
        rows = float(known.sum())
        relative = float(((error / self.spread) ** 2).sum())
        self.rolling.append((int(rows), relative, float(inside.sum())))
        while sum(r[0] for r in self.rolling) > ROLLING * self.n_targets and len(self.rolling) > 1:
            self.rolling.popleft()
        return rows, relative, float(inside.sum())

    def note(self, scored: tuple[float, float, float], seconds: float, rank: int, share: float) -> None:
        """Add a batch to the curves of the report."""
        self.seconds += seconds
        new: tuple[float, ...] = (1.0, float(self.rows), *scored, seconds, float(rank), float(share))
        if self.history and self.history[-1][0] < self.stride:
            last = self.history.pop()
            summed = [last[i] + new[i] for i in (2, 3, 4, 5)]
            new = (last[0] + 1.0, new[1], *summed, new[6], new[7])
        self.history.append(new)
        if len(self.history) > POINTS:
            pairs = [self.history[i : i + 2] for i in range(0, len(self.history), 2)]
            self.history = [
                (
                    sum(p[0] for p in pair),
                    pair[-1][1],
                    *(sum(p[i] for p in pair) for i in (2, 3, 4, 5)),
                    *pair[-1][6:],
                )
                for pair in pairs
            ]
            self.stride *= 2

    def lately(self) -> tuple[float, float] | None:
        """Give error over spread, and coverage, of the last rows; None before any was scored."""
        rows = sum(r[0] for r in self.rolling)
        if not rows:
            return None
        return math.sqrt(sum(r[1] for r in self.rolling) / rows), sum(r[2] for r in self.rolling) / rows


class Quarantine:
    """Bad rows as JSON lines; the file is cut to `size` first, where a run goes on."""

    def __init__(self, path: str | None, size: int = 0) -> None:
        self.path = path
        self.file: IO[bytes] | None = None if path is None else open_at(path, size)

    def add(self, row: BadRow) -> None:
        """Write one down."""
        if self.file is not None:
            line = json.dumps({"line": row.line, "reason": row.reason, "row": row.text}, ensure_ascii=False)
            try:
                self.file.write(line.encode("utf-8", "backslashreplace") + b"\n")
            except OSError as error:
                raise DataError(f"{self.path} cannot be written: {error.strerror}") from error

    def flush(self) -> int:
        """Bring all to the disk and give the number of bytes there."""
        return 0 if self.file is None else synced(self.file, str(self.path))


@dataclass
class Session:
    """Everything that one run holds.

    Attributes
    ----------
    gp : StreamingGPRegressor
    targets : names
    level : float
        The probability of intervals.
    on_error : {"fail", "skip", "quarantine"}
    writer : Writer or None
    quarantine : Quarantine
    tally : Tally
    save : called with the place after batches, where the run is kept
    every : int
        Rows between two saves.
    """

    gp: StreamingGPRegressor
    targets: tuple[str, ...]
    level: float
    on_error: str
    writer: Writer | None
    quarantine: Quarantine
    tally: Tally
    save: Callable[[Session, Place], None] | None = None
    every: int = 10_000
    first_bad: list[BadRow] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    latest: deque[np.ndarray] = field(default_factory=lambda: deque(maxlen=5))
    place: Place = field(default_factory=Place)

    def run(
        self, batches: Iterator[Rows], stopped: Callable[[], bool], *, learn: bool = True
    ) -> Iterator[Rows]:
        """Work through batches until they end or `stopped`; gives each back when it is done and counted."""
        saved = self.tally.rows
        for rows in batches:
            if rows.lines or rows.bad:
                before = copy.copy(self.gp)
                try:
                    self._one(rows, learn)
                except DataError:
                    self.gp = before
                    raise
                self.place = rows.place
            yield rows
            if self.save and self.tally.rows - saved >= self.every:
                self.save(self, self.place)
                saved = self.tally.rows
            if stopped():
                break
        if self.save:
            self.save(self, self.place)

    def _one(self, rows: Rows, learn: bool) -> None:
        began = time.perf_counter()
        if rows.bad and self.on_error == "fail":
            self._refuse(rows.bad[0])
        X, y, lines = rows.X, rows.y, rows.lines
        scored = (0.0, 0.0, 0.0)
        known = self.gp.__sklearn_is_fitted__()
        if lines:
            X, y, lines, answers = self._predicted(X, y, lines, rows.bad) if known else (X, y, lines, None)
            labelled = np.isfinite(y).all(axis=1) if y.shape[1] else np.zeros(len(lines), dtype=bool)
            lost: list[BadRow] = []
            if learn and labelled.any():
                lost = self._learned(X, y, lines, labelled)
            rows.bad.extend(lost)
            gone = {row.line for row in lost}
            if answers is None:
                answers = [np.full((len(lines), len(self.targets)), np.nan) for _ in range(3)]
            else:
                fair = np.array([line not in gone for line in lines])
                scored = self.tally.score(np.where(fair[:, None], y, np.nan), *answers)
            if self.writer:
                mean, std, half = answers[0], answers[1], answers[2]
                columns = [
                    c[:, j] for j in range(mean.shape[1]) for c in (mean, std, mean - half, mean + half)
                ]
                self.writer.write(lines, columns)
            self.tally.rows += len(lines)
            self.tally.unlabelled += int((~labelled).sum())
            self.latest.append(X)
        rows.bad.sort(key=lambda row: row.line)
        kept = set(lines)
        self.tally.rows += sum(row.line not in kept for row in rows.bad)
        for row in rows.bad:
            self._count(row)
        rank, share = (
            (self.gp.rank_, self.gp.trace_error_share_) if self.gp.__sklearn_is_fitted__() else (0, 0.0)
        )
        self.tally.note(scored, time.perf_counter() - began, rank, share)

    def _predicted(
        self, X: np.ndarray, y: np.ndarray, lines: list[int], bad: list[BadRow]
    ) -> tuple[np.ndarray, np.ndarray, list[int], list[np.ndarray]]:
        """Predict rows; those that the model cannot are bad."""
        try:
            mean, std = self.gp.predict(X, return_std=True)
        except (InputError, NumericalError):
            good = np.ones(len(lines), dtype=bool)
            for i in range(len(lines)):
                try:
                    self.gp.predict(X[i : i + 1], return_std=True)
                except (InputError, NumericalError) as error:
                    good[i] = False
                    self._wrong(lines[i], error, X[i], y[i], bad)
            X, y, lines = X[good], y[good], [n for n, fine in zip(lines, good, strict=True) if fine]
            if not lines:
                nothing = np.empty((0, len(self.targets)))
                return X, y, lines, [nothing] * 3
            mean, std = self.gp.predict(X, return_std=True)
        reach = self.gp._reach(self.level, True)
        shape = (len(lines), len(self.targets))
        half = np.asarray(reach * std).reshape(shape)
        return X, y, lines, [np.asarray(mean).reshape(shape), np.asarray(std).reshape(shape), half]

    def _learned(self, X: np.ndarray, y: np.ndarray, lines: list[int], labelled: np.ndarray) -> list[BadRow]:
        """Learn labelled rows; give those that the model refuses, or its guard."""
        at = np.flatnonzero(labelled)
        rows, labels = (X, y) if labelled.all() else (X[at], y[at])
        bad: list[BadRow] = []
        try:
            bad += self._taught(rows, labels, [lines[i] for i in at])
        except (InputError, NumericalError):
            for i in at:
                try:
                    bad += self._taught(X[i : i + 1], y[i : i + 1], [lines[i]])
                except (InputError, NumericalError) as error:
                    self._wrong(lines[i], error, X[i], y[i], bad)
        self.tally.learned += len(at) - len(bad)
        return bad

    def _taught(self, X: np.ndarray, y: np.ndarray, lines: list[int]) -> list[BadRow]:
        self.gp.partial_fit(X, y[:, 0] if y.shape[1] == 1 else y)
        refused = np.flatnonzero(self.gp.refused_)
        return [
            BadRow(lines[i], "impossible: too far from all that was learned", _text(X[i], y[i]))
            for i in refused
        ]

    def _wrong(self, line: int, error: Exception, x: np.ndarray, y: np.ndarray, bad: list[BadRow]) -> None:
        row = BadRow(line, f"not to be learned: {str(error).splitlines()[0]}", _text(x, y))
        if self.on_error == "fail":
            self._refuse(row)
        bad.append(row)

    def _refuse(self, row: BadRow) -> None:
        column, _, rest = row.reason.partition("=")
        if self.tally.rows == 0 and rest.endswith("is not a number"):
            remedy = f"if no number stands there in any row, --ignore {column} leaves the column out"
        else:
            remedy = "--on-error skip leaves such rows out, --on-error quarantine keeps them in a file"
        raise DataError(
            f"line {row.line}: {row.reason}. Nothing of its batch was learned or written; {remedy}"
        )

    @property
    def useless(self) -> DataError | None:
        """What to say where rows came, and not one of them could be used."""
        tally = self.tally
        if not tally.rows or tally.bad + tally.impossible < tally.rows or not self.first_bad:
            return None
        first = self.first_bad[0]
        return DataError(f"none of {tally.rows:,} rows could be used; line {first.line}: {first.reason}")

    def _count(self, row: BadRow) -> None:
        impossible = row.reason.startswith("impossible")
        self.tally.impossible += impossible
        self.tally.bad += not impossible
        # Alike but for the value.
        self.reasons[re.sub(r"=.* is ", " is ", row.reason, flags=re.DOTALL)] += 1
        if len(self.first_bad) < 5:
            self.first_bad.append(row)
        self.quarantine.add(row)


def _text(x: np.ndarray, y: np.ndarray) -> str:
    return json.dumps([float(v) if np.isfinite(v) else None for v in (*x, *y)])
