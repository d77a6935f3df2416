"""Counts and scores of a run, in bounded memory."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.special

from ..evaluation import TINY, negative_log_density

# Points of the curves in a report; neighbouring points are added up when there are more.
POINTS = 400
# Rows that the live line looks back on.
ROLLING = 1000
# Bins of the histogram in a report.
BINS = 20


class BatchScore(NamedTuple):
    """Score of one batch: targets scored, sum of squared errors over squared spread, targets inside their interval."""

    scored: float = 0.0
    squared_error: float = 0.0
    covered: float = 0.0


class HistoryPoint(NamedTuple):
    """Sums over consecutive batches; `rows` counts all rows of the run up to their end."""

    batches: float
    rows: float
    scored: float
    squared_error: float
    covered: float
    seconds: float

    def merge(self, later: HistoryPoint) -> HistoryPoint:
        """Return the point of both stretches."""
        sums = [mine + theirs for mine, theirs in zip(self, later, strict=True)]
        return HistoryPoint(*sums)._replace(rows=later.rows)


@dataclass
class Tally:
    """Counts and scores of a run; the same, seconds aside, whether or not it was interrupted.

    Attributes
    ----------
    rows, learned, unlabelled, refused, bad : int
        Rows read, and of them: learned, without a label, refused by the guard, bad for another reason.
    scored, squared_error, covered, negative_log_density : (q,)
        Over labelled rows that were predicted: number, sum of squared errors, number inside the interval, sum of
        negative log predictive densities.
    absolute_error : (q,)
        Sum of the absolute errors.
    compared : (q,)
        Rows that the baselines predicted too.
    baseline_squares, baseline_absolute : (2, q)
        Sums of the squared and of the absolute errors of the baselines, over these rows.
    origin, target_sum, target_squares : (q,)
        A typical target, and the sums of the targets and of their squares about it.
    pit_histogram : (q, BINS)
        Histogram of the probability integral transform: the predictive distribution function at the target.
    history : list of HistoryPoint
        At most POINTS, each of `stride` batches.
    rolling : deque of BatchScore
        The batches of about the last ROLLING rows.
    """

    n_targets: int
    rows: int = 0
    learned: int = 0
    unlabelled: int = 0
    refused: int = 0
    bad: int = 0
    seconds: float = 0.0
    scored: np.ndarray = field(default_factory=lambda: np.zeros(0))
    squared_error: np.ndarray = field(default_factory=lambda: np.zeros(0))
    covered: np.ndarray = field(default_factory=lambda: np.zeros(0))
    negative_log_density: np.ndarray = field(default_factory=lambda: np.zeros(0))
    absolute_error: np.ndarray = field(default_factory=lambda: np.zeros(0))
    compared: np.ndarray = field(default_factory=lambda: np.zeros(0))
    baseline_squares: np.ndarray = field(default_factory=lambda: np.zeros((2, 0)))
    baseline_absolute: np.ndarray = field(default_factory=lambda: np.zeros((2, 0)))
    origin: np.ndarray = field(default_factory=lambda: np.zeros(0))
    target_sum: np.ndarray = field(default_factory=lambda: np.zeros(0))
    target_squares: np.ndarray = field(default_factory=lambda: np.zeros(0))
    pit_histogram: np.ndarray = field(default_factory=lambda: np.zeros((0, BINS)))
    history: list[HistoryPoint] = field(default_factory=list)
    stride: int = 1
    rolling: deque[BatchScore] = field(default_factory=deque)

    def __post_init__(self) -> None:
        if not self.scored.size:
            for name in (
                "scored", "squared_error", "covered", "negative_log_density", "origin", "target_sum", "target_squares",
                "absolute_error", "compared",
            ):  # fmt: skip
                setattr(self, name, np.zeros(self.n_targets))
            self.baseline_squares, self.baseline_absolute = (np.zeros((2, self.n_targets)) for _ in range(2))
            self.pit_histogram = np.zeros((self.n_targets, BINS))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, arrays and lists of tuples, for a checkpoint."""
        lists = {"rolling": [tuple(s) for s in self.rolling], "history": [tuple(p) for p in self.history]}
        return {**self.__dict__, **lists}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Tally:
        """Return the tally of which `to_dict` returned `content`."""
        rolling = deque(BatchScore(*values) for values in content["rolling"])
        history = [HistoryPoint(*values) for values in content["history"]]
        return cls(**{**content, "rolling": rolling, "history": history})

    @property
    def spread(self) -> np.ndarray:
        """Standard deviation (q,) of the targets so far; 1 where it is not known."""
        n = np.maximum(self.scored, 1)
        variance = self.target_squares / n - (self.target_sum / n) ** 2
        return np.sqrt(np.where(variance > 0, variance, 1.0))

    @property
    def rmse(self) -> np.ndarray:
        """Root mean squared error (q,); NaN before any row was scored."""
        return np.sqrt(self.squared_error / np.where(self.scored > 0, self.scored, np.nan))

    @property
    def mae(self) -> np.ndarray:
        """Mean absolute error (q,); NaN before any row was scored."""
        return self.absolute_error / np.where(self.scored > 0, self.scored, np.nan)

    @property
    def baseline_rmse(self) -> np.ndarray:
        """Root mean squared errors (2, q) of the baselines; NaN where they predicted nothing."""
        return np.sqrt(self.baseline_squares / np.where(self.compared > 0, self.compared, np.nan))

    @property
    def baseline_mae(self) -> np.ndarray:
        """Mean absolute errors (2, q) of the baselines."""
        return self.baseline_absolute / np.where(self.compared > 0, self.compared, np.nan)

    @property
    def rejected(self) -> int:
        """Rows that were neither learned nor left unlabelled: bad, or refused by the guard."""
        return self.bad + self.refused

    def score(
        self,
        y: np.ndarray,
        mean: np.ndarray,
        std: np.ndarray,
        ends: tuple[np.ndarray, np.ndarray],
        baselines: np.ndarray | None = None,
    ) -> BatchScore:
        """Score predictions, each (b, q), against `y`, NaN where a label is missing; return what was added.

        `baselines` (2, q) are what the baselines predict for all these rows, NaN where they do not know.
        """
        known = np.isfinite(y)
        if not known.any():
            return BatchScore()
        with np.errstate(over="ignore", invalid="ignore"):
            self._add_targets(y, known)
            error = np.where(known, y - mean, 0.0)
            inside = known & (ends[0] <= y) & (y <= ends[1])
            self.squared_error += (error**2).sum(axis=0)
            self.absolute_error += np.abs(error).sum(axis=0)
            if baselines is not None:
                compared = known & np.isfinite(baselines).all(axis=0)
                off = np.where(compared, y - baselines[:, None, :], 0.0)
                self.compared += compared.sum(axis=0)
                self.baseline_squares += (off**2).sum(axis=1)
                self.baseline_absolute += np.abs(off).sum(axis=1)
            self.covered += inside.sum(axis=0)
            self._add_densities(error, known, np.maximum(std, TINY))
            relative = float(((error / self.spread) ** 2).sum())
        added = BatchScore(float(known.sum()), relative, float(inside.sum()))
        self.rolling.append(added)
        while sum(s.scored for s in self.rolling) > ROLLING * self.n_targets and len(self.rolling) > 1:
            self.rolling.popleft()
        return added

    def _add_targets(self, y: np.ndarray, known: np.ndarray) -> None:
        first = self.scored == 0
        if first.any():
            # The variance from squares about zero would cancel where targets are far from zero.
            typical = np.where(known, y, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
            self.origin = np.where(first, typical, self.origin)
        deviation = np.where(known, y - self.origin, 0.0)
        self.scored += known.sum(axis=0)
        self.target_sum += deviation.sum(axis=0)
        self.target_squares += (deviation**2).sum(axis=0)

    def _add_densities(self, error: np.ndarray, known: np.ndarray, std: np.ndarray) -> None:
        self.negative_log_density += np.where(known, negative_log_density(error, std), 0.0).sum(axis=0)
        bins = np.clip((scipy.special.ndtr(error / std) * BINS).astype(int), 0, BINS - 1)
        for j in range(self.n_targets):
            self.pit_histogram[j] += np.bincount(bins[known[:, j], j], minlength=BINS)

    def add_batch(self, score: BatchScore, seconds: float) -> None:
        """Add a batch to the history, whose points are added up in pairs when there are more than POINTS."""
        self.seconds += seconds
        point = HistoryPoint(1.0, float(self.rows), *score, seconds)
        if self.history and self.history[-1].batches < self.stride:
            point = self.history.pop().merge(point)
        self.history.append(point)
        if len(self.history) > POINTS:
            pairs = [self.history[i : i + 2] for i in range(0, len(self.history), 2)]
            self.history = [pair[0].merge(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
            self.stride *= 2

    def recent_score(self) -> tuple[float, float] | None:
        """Return RMSE over spread, and coverage, of the last rows; None before any was scored."""
        scored = sum(s.scored for s in self.rolling)
        if not scored:
            return None
        squared_error = sum(s.squared_error for s in self.rolling)
        return math.sqrt(squared_error / scored), sum(s.covered for s in self.rolling) / scored
