"""A run over a table: predict each batch, score it, learn it, write it, and save so that it can be resumed."""

from __future__ import annotations

import copy
import json
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import DataError, InputError, NumericalError
from ..regressor import StreamingGPRegressor
from .outputs import Quarantine, Writer
from .tables import BadRow, Position, TableRows
from .tally import BatchScore, Tally

# Bad rows that a summary shows.
FIRST_BAD = 5
# Batches of which the inputs are kept, for the spectrum in a report.
LATEST = 5

_REFUSED = "refused by the guard: too far from what was learned"


@dataclass(frozen=True)
class RowPredictions:
    """Mean, standard deviation and ends of the interval, each (b, q); NaN before anything was learned."""

    mean: np.ndarray
    std: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def constant(cls, n: int, n_targets: int, value: float = np.nan) -> RowPredictions:
        """Return a prediction of n rows with the same value everywhere."""
        return cls(*(np.full((n, n_targets), value) for _ in range(4)))

    @property
    def columns(self) -> list[np.ndarray]:
        """Mean, standard deviation, lower and upper end, (b,) each, for one target after another."""
        parts = (self.mean, self.std, self.low, self.high)
        return [part[:, j] for j in range(self.mean.shape[1]) for part in parts]


@dataclass
class Session:
    """Everything that one run holds.

    Attributes
    ----------
    gp : StreamingGPRegressor
    targets : tuple of str
    level : float
        Probability of the intervals.
    on_error : {"fail", "skip", "quarantine"}
        What to do with a bad row.
    writer : Writer or None
    quarantine : Quarantine
    tally : Tally
    save : callable or None
        Writes the checkpoint.
    every : int
        Rows between two checkpoints.
    delay : int
        How many rows later the label of a row is learned.
    waiting : TableRows or None
        Labelled rows to be learned then.
    first_bad : list of BadRow
    reasons : Counter
        Number of bad rows for each reason.
    latest : deque of (b, d)
        Inputs of the last batches.
    position : Position
        In the input, after the last batch that was learned.
    """

    gp: StreamingGPRegressor
    targets: tuple[str, ...]
    level: float
    on_error: str
    writer: Writer | None
    quarantine: Quarantine
    tally: Tally
    save: Callable[[Session], None] | None = None
    every: int = 10_000
    delay: int = 0
    waiting: TableRows | None = None
    first_bad: list[BadRow] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    latest: deque[np.ndarray] = field(default_factory=lambda: deque(maxlen=LATEST))
    position: Position = field(default_factory=Position)

    @property
    def fitted(self) -> bool:
        """Whether the model has learned anything."""
        return bool(self.gp.__sklearn_is_fitted__())

    def run(
        self, batches: Iterator[TableRows], should_stop: Callable[[], bool], *, learn: bool = True
    ) -> Iterator[TableRows]:
        """Process batches until they end or `should_stop` returns True; yield each one when it is counted."""
        saved = self.tally.rows
        for batch in batches:
            if batch.line_numbers or batch.bad:
                before = copy.copy(self.gp), self.waiting
                try:
                    self._process(batch, learn)
                except DataError:
                    self.gp, self.waiting = before
                    raise
                self.position = batch.position
            yield batch
            if self.save and self.tally.rows - saved >= self.every:
                self.save(self)
                saved = self.tally.rows
            if should_stop():
                break
        if self.save:
            self.save(self)

    def close(self) -> None:
        """Close the predictions and write the quarantine to the disk."""
        if self.writer:
            self.writer.close()
        self.quarantine.flush()

    def _process(self, batch: TableRows, learn: bool) -> None:
        began, n = time.perf_counter(), len(batch.line_numbers) + len(batch.bad)
        if batch.bad and self.on_error == "fail":
            raise self._failure(batch.bad[0])
        score = self._process_rows(batch, learn) if batch.line_numbers else BatchScore()
        self.tally.rows += n
        batch.bad.sort(key=lambda row: row.line)
        for row in batch.bad:
            self._count(row)
        self.tally.add_batch(score, time.perf_counter() - began)

    def _process_rows(self, batch: TableRows, learn: bool) -> BatchScore:
        """Predict rows, learn those with labels, then score and write the predictions."""
        fitted = self.fitted
        if fitted:
            batch, prediction = self._predict(batch)
        else:
            prediction = RowPredictions.constant(len(batch.line_numbers), len(self.targets))
        labelled = np.isfinite(batch.y).all(axis=1)
        due = self._due(batch, labelled)
        not_learned = self._learn(due) if learn and due.line_numbers else []
        batch.bad.extend(not_learned)
        score = BatchScore()
        if fitted:
            excluded = {row.line for row in not_learned}
            learnable = np.array([line not in excluded for line in batch.line_numbers])
            y = np.where(learnable[:, None], batch.y, np.nan)
            score = self.tally.score(y, prediction.mean, prediction.std, (prediction.low, prediction.high))
        if self.writer:
            self.writer.write(batch.line_numbers, prediction.columns)
        self.tally.unlabelled += int((~labelled).sum())
        self.latest.append(batch.X)
        return score

    def _due(self, batch: TableRows, labelled: np.ndarray) -> TableRows:
        """Return the labelled rows that came `delay` lines ago or earlier; the others wait."""
        rows = _only(batch, labelled)
        if not self.delay:
            return rows
        if self.waiting is not None:
            X, y = (
                np.concatenate([getattr(part, name) for part in (self.waiting, rows)]) for name in ("X", "y")
            )
            rows = TableRows(X, y, [*self.waiting.line_numbers, *rows.line_numbers])
        due = np.array(rows.line_numbers, dtype=np.int64) <= batch.line_numbers[-1] - self.delay
        self.waiting = _only(rows, ~due)
        return _only(rows, due)

    def _predict(self, batch: TableRows) -> tuple[TableRows, RowPredictions]:
        """Return the rows that can be predicted, and their prediction; the others become bad rows."""
        try:
            answer = self.gp.predict(batch.X, return_std=True, return_interval=self.level)
        except (InputError, NumericalError):
            batch = self._predictable(batch)
            if not batch.line_numbers:
                return batch, RowPredictions.constant(0, len(self.targets))
            answer = self.gp.predict(batch.X, return_std=True, return_interval=self.level)
        shape = (len(batch.line_numbers), len(self.targets))
        return batch, RowPredictions(*(np.asarray(part).reshape(shape) for part in answer))

    def _predictable(self, batch: TableRows) -> TableRows:
        """Return the batch without the rows that the model cannot predict; they are added to its bad rows."""
        good = np.ones(len(batch.line_numbers), dtype=bool)
        for i, line in enumerate(batch.line_numbers):
            try:
                self.gp.predict(batch.X[i : i + 1], return_std=True)
            except (InputError, NumericalError) as error:
                good[i] = False
                batch.bad.append(self._bad_row(line, error, batch.X[i], batch.y[i]))
        return _only(batch, good)

    def _learn(self, batch: TableRows) -> list[BadRow]:
        """Learn labelled rows, one at a time if they cannot be learned together; return those not learned."""
        X, y, numbers = batch.X, batch.y, batch.line_numbers
        bad: list[BadRow] = []
        try:
            bad += self._partial_fit(X, y, numbers)
        except (InputError, NumericalError):
            for i, line in enumerate(numbers):
                try:
                    bad += self._partial_fit(X[i : i + 1], y[i : i + 1], [line])
                except (InputError, NumericalError) as error:
                    bad.append(self._bad_row(line, error, X[i], y[i]))
        self.tally.learned += len(numbers) - len(bad)
        return bad

    def _partial_fit(self, X: np.ndarray, y: np.ndarray, line_numbers: list[int]) -> list[BadRow]:
        """Learn rows and return those that the guard refused."""
        before = self.gp.n_refused_ if self.fitted else 0
        self.gp.partial_fit(X, y[:, 0] if y.shape[1] == 1 else y)
        refused = np.flatnonzero(self.gp.refused_)
        # Earlier rows may be learned after all, and of the first rows some refused, now that more are there.
        earlier = self.gp.n_refused_ - before - refused.size
        self.tally.refused += earlier
        self.tally.learned -= earlier
        return [BadRow(line_numbers[i], _REFUSED, _as_json(X[i], y[i])) for i in refused]

    def _bad_row(self, line: int, error: Exception, x: np.ndarray, y: np.ndarray) -> BadRow:
        """Return the bad row that an error of the model makes, or raise DataError where one ends the run."""
        row = BadRow(line, f"cannot be used: {str(error).splitlines()[0]}", _as_json(x, y))
        if self.on_error == "fail":
            raise self._failure(row)
        return row

    def _failure(self, row: BadRow) -> DataError:
        column, _, rest = row.reason.partition("=")
        if self.tally.rows == 0 and rest.endswith("is not a number"):
            remedy = f"if the column never holds numbers, leave it out with --ignore {column}"
        else:
            remedy = "leave such rows out with --on-error skip, or collect them with --on-error quarantine"
        return DataError(
            f"line {row.line}: {row.reason}. Nothing of its batch was learned or written; {remedy}"
        )

    @property
    def useless(self) -> DataError | None:
        """The error to raise if rows came and none could be used, else None."""
        tally = self.tally
        if not tally.rows or tally.rejected < tally.rows or not self.first_bad:
            return None
        first = self.first_bad[0]
        return DataError(f"none of {tally.rows:,} rows could be used; line {first.line}: {first.reason}")

    def _count(self, row: BadRow) -> None:
        refused = row.reason == _REFUSED
        self.tally.refused += refused
        self.tally.bad += not refused
        # Reasons that differ only in the value count as one.
        self.reasons[re.sub(r"=.* is ", " is ", row.reason, flags=re.DOTALL)] += 1
        if len(self.first_bad) < FIRST_BAD:
            self.first_bad.append(row)
        self.quarantine.add(row)


def _only(batch: TableRows, mask: np.ndarray) -> TableRows:
    """Return the rows of a batch for which the mask (b,) is true."""
    if mask.all():
        return batch
    numbers = [line for line, wanted in zip(batch.line_numbers, mask, strict=True) if wanted]
    return replace(batch, X=batch.X[mask], y=batch.y[mask], line_numbers=numbers)


def interval_factor(gp: StreamingGPRegressor, level: float) -> float | np.ndarray:
    """Return the half-width of calibrated intervals in standard deviations: a number, or (q,)."""
    factor: float | np.ndarray = gp.interval_factor(level)
    return factor


def _as_json(x: np.ndarray, y: np.ndarray) -> str:
    return json.dumps([float(v) if np.isfinite(v) else None for v in (*x, *y)])
