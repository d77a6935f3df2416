"""A run over a table: predict each batch, score it, learn it, write it, and save so that it can be resumed."""

from __future__ import annotations

import copy
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ..columns import StreamColumns
from ..errors import DataError, InputError, NumericalError
from ..regressor import StreamingGPRegressor
from .alarms import Alarm, Alarms, Scored
from .baselines import Baselines
from .late import LateLabels
from .outputs import Quarantine, Writer
from .predictions import RowPredictions
from .raw_rows import as_numbers, with_features, with_weights, without_gaps
from .roles import row_names
from .sensors import Sensors
from .tables import BadRow, Position, TableRows, row_text
from .tally import BatchScore, Tally
from .trace import Stretch, Sums, Trace

# Bad rows that a summary shows.
FIRST_BAD = 5
# Batches of which the inputs are kept, for the spread of each feature in a report.
LATEST = 5

# Why a row with a label may be no part of the model, and yet not be bad.
EMPTY = "every feature is missing"
_REFUSED = "refused by the guard: too far from what was learned"


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
    columns : StreamColumns or None
        Turns raw rows into numbers; None where they are numbers.
    save : callable or None
        Writes the checkpoint.
    every : int
        Rows between two checkpoints.
    seconds : float
        After which a checkpoint is written in any case, if there are new rows.
    delay : int
        How many rows later the label of a row is learned.
    weighted : bool
        Whether the labels of a batch have the weights of its rows behind them.
    waiting : TableRows or None
        Labelled rows to be learned then.
    late : LateLabels or None
        Rows by their key, whose labels come on later lines; None where a row has its labels on its own line.
    row_of_line : dict
        Numbers of the rows of a batch for `columns`, by their lines.
    first_bad : list of BadRow
    reasons : Counter
        Number of bad rows for each reason.
    latest : deque of (b, d)
        Inputs of the last batches.
    position : Position
        In the input, after the last batch that was learned.
    sensors : Sensors
        What was missing in the columns that the model learns from, and in the targets.
    notes : list of str
        What the summary says beside.
    baselines : Baselines
        What one would predict without a model.
    trace : Trace
        What a report draws.
    alarms : Alarms or None
    on_alarm : callable
        What to do with an alarm when it is raised.
    on_batch : callable
        What to do with rows that were answered, what was said of them, and those that were not learned.
    """

    gp: StreamingGPRegressor
    targets: tuple[str, ...]
    level: float
    on_error: str
    writer: Writer | None
    quarantine: Quarantine
    tally: Tally
    sensors: Sensors
    columns: StreamColumns | None = None
    save: Callable[[Session], None] | None = None
    every: int = 10_000
    seconds: float = float("inf")
    delay: int = 0
    weighted: bool = False
    waiting: TableRows | None = None
    late: LateLabels | None = None
    row_of_line: dict[int, int] = field(default_factory=dict)
    first_bad: list[BadRow] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    latest: deque[np.ndarray] = field(default_factory=lambda: deque(maxlen=LATEST))
    position: Position = field(default_factory=Position)
    notes: list[str] = field(default_factory=list)
    alarms: Alarms | None = None
    on_alarm: Callable[[Alarm], None] = lambda alarm: None
    on_batch: Callable[[TableRows, RowPredictions, list[BadRow]], None] = lambda batch, said, bad: None
    baselines: Baselines = field(init=False)
    trace: Trace = field(init=False)

    def __post_init__(self) -> None:
        q = len(self.targets)
        self.baselines, self.trace = Baselines.none(q), Trace.none(q)

    @property
    def n_texts(self) -> int:
        """Columns of text that the model learns from; those behind them are kept for the output."""
        return 0 if self.columns is None else len(self.columns.state_.texts)

    @property
    def fitted(self) -> bool:
        """Whether the model has learned anything."""
        return bool(self.gp.__sklearn_is_fitted__())

    def run(
        self, batches: Iterator[TableRows], should_stop: Callable[[], bool], *, learn: bool = True
    ) -> Iterator[TableRows]:
        """Process batches until they end or `should_stop` returns True; yield each one when it is counted."""
        saved, saved_at = self.tally.rows, time.monotonic()
        for batch in batches:
            if batch.line_numbers or batch.bad or batch.empty:
                before = copy.copy(self.gp), self.waiting, copy.copy(self.columns), self.late
                try:
                    self._process(batch, learn)
                except DataError:
                    self.gp, self.waiting, self.columns, self.late = before
                    raise
                self.position = batch.position
            yield batch
            wanted = self.every if time.monotonic() - saved_at < self.seconds else 1
            if self.save and self.tally.rows - saved >= wanted:
                self.save(self)
                saved, saved_at = self.tally.rows, time.monotonic()
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
        began = time.perf_counter()
        labels = None
        if self.weighted:
            batch = with_weights(batch)
        if self.late is not None:
            batch, labels, self.late = self.late.sorted_out(batch, self.n_texts)
        n = len(batch.line_numbers) + len(batch.bad)
        seen, batch = batch, self._prepared(batch)
        if batch.bad and self.on_error == "fail":
            raise self._failure(batch.bad[0])
        sums = Sums.none(len(self.targets))
        score, sums = self._process_rows(batch, learn) if batch.line_numbers else (BatchScore(), sums)
        if labels is not None and self.late is not None:
            score = self._learn_late(self.late, labels, batch, score)
        # In a table to predict there may be no targets.
        texts = (
            seen.texts[:, : self.n_texts]
            if self.n_texts and seen.line_numbers
            else np.empty((len(seen.X), 0))
        )
        texts = np.where(texts == "", np.nan, 0.0)
        self.sensors.add(np.hstack([seen.X, texts, seen.y])[:, : len(self.sensors.names)], seen.empty)
        self.tally.rows += n
        batch.bad.sort(key=lambda row: row.line)
        for row in batch.bad:
            self._count(row)
        seconds = time.perf_counter() - began
        self.tally.add_batch(score, seconds)
        if seen.line_numbers:
            self.trace = _traced(self, row_names(seen, self.columns), sums, seconds)

    def _learn_late(
        self, late: LateLabels, labels: TableRows, batch: TableRows, score: BatchScore
    ) -> BatchScore:
        """Learn labels of earlier rows; return the score with that of the predictions which these were given."""
        found, self.late = late.matched(labels)
        if found is None:
            return score
        if self.columns is not None:
            self.columns.label(found.rows, found.batch.y)
        not_learned = self._learn(found.batch)
        batch.bad.extend(not_learned)
        self.tally.learned -= found.again
        excluded = {row.line for row in not_learned}
        scored = np.array([line not in excluded for line in found.batch.line_numbers])
        mean, std, low, high = found.answers
        y = np.where(scored[:, None] & np.isfinite(mean), found.batch.y, np.nan)
        added = self.tally.score(y, np.nan_to_num(mean), np.nan_to_num(std), (low, high))
        return BatchScore(*(a + b for a, b in zip(score, added, strict=True)))

    def _prepared(self, batch: TableRows) -> TableRows:
        """Return the batch as the model takes it: as numbers, and without gaps unless the model fills them."""
        if not batch.line_numbers:
            return batch
        names = self.sensors.names
        if self.columns is not None:
            names, first = self.columns.state_.features, self.columns.state_.row
            self.row_of_line = {line: first + i for i, line in enumerate(batch.line_numbers)}
            # Lines that are no rows count: a lag is so many lines. A run begins right behind what was learned before.
            before = self.position.line or batch.line_numbers[0] - 1
            steps = np.array(batch.line_numbers) - before - 1
            # Among lines with keys, those that bring labels are no rows.
            batch = as_numbers(self.columns, batch, steps if self.late is None else None)
        return batch if self.gp.__sklearn_tags__().input_tags.allow_nan else without_gaps(batch, names)

    def _process_rows(self, batch: TableRows, learn: bool) -> tuple[BatchScore, Sums]:
        """Predict rows, learn those with labels, then score and write the predictions."""
        fitted = self.fitted
        if fitted:
            batch, prediction = self._predict(batch)
        else:
            prediction = RowPredictions.constant(len(batch.line_numbers), len(self.targets))
        labelled = np.isfinite(batch.y).any(axis=1)
        due = self._due(batch, labelled)
        not_learned = self._learn(due) if learn and due.line_numbers else []
        batch.bad.extend(not_learned)
        lost = {row.line for row in not_learned}
        score, sums = BatchScore(), Sums.none(len(self.targets))
        if fitted:
            learnable = np.array([[line not in lost] for line in batch.line_numbers])
            y = np.where(learnable, batch.y, np.nan)
            ends, baselines = (prediction.low, prediction.high), self.baselines.values
            score = self.tally.score(y, prediction.mean, prediction.std, ends, baselines)
            sums = Sums.of(y, prediction.mean, ends, baselines)
            self.trace = self.trace.scored(row_names(batch, self.columns), y, prediction.mean, ends)
        self.baselines = self.baselines.add(due.y[[line not in lost for line in due.line_numbers]])
        if self.writer:
            end = None if self.late is None else -1  # the key comes last
            none = np.empty((len(batch.y), 0), dtype=object)
            kept = batch.texts[:, self.n_texts : end] if batch.texts.size else none
            self.writer.write(batch.line_numbers, kept, prediction.beside(batch.y))
        if self.late is None:
            self.tally.unlabelled += int((~labelled).sum())
        else:
            answers = np.stack([prediction.mean, prediction.std, prediction.low, prediction.high])
            rows = np.array([self.row_of_line.get(line, 0) for line in batch.line_numbers])
            self.late = self.late.remember(batch.texts[:, -1].tolist(), rows, batch.X, batch.y, answers)
        self.latest.append(batch.X)
        if self.alarms is not None:
            self._watch(self.alarms, batch, prediction, not_learned)
        self.on_batch(batch, prediction, not_learned)
        return score, sums

    def _watch(
        self, alarms: Alarms, batch: TableRows, prediction: RowPredictions, not_learned: list[BadRow]
    ) -> None:
        """Let the alarms look at the rows of a batch."""
        refused = {row.line for row in not_learned}
        missing = np.isnan(batch.X) if alarms.looks_at_inputs else np.zeros((0, 0), dtype=bool)
        inside = (prediction.low <= batch.y) & (batch.y <= prediction.high)
        self.alarms, raised = alarms.add(
            Scored(
                np.array(batch.line_numbers), batch.y, prediction.mean, prediction.std, inside,
                np.array([line in refused for line in batch.line_numbers]), missing, row_names(batch, self.columns),
            )
        )  # fmt: skip
        for alarm in raised:
            self.on_alarm(alarm)

    def _due(self, batch: TableRows, labelled: np.ndarray) -> TableRows:
        """Return the labelled rows that came `delay` lines ago or earlier; the others wait."""
        rows = batch.only(labelled)
        if not self.delay:
            return rows
        if self.waiting is not None:
            rows = rows.behind(self.waiting)
        due = np.array(rows.line_numbers, dtype=np.int64) <= batch.line_numbers[-1] - self.delay
        self.waiting = rows.only(~due)
        return rows.only(due)

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
        return batch.only(good)

    def _learn(self, batch: TableRows) -> list[BadRow]:
        """Learn labelled rows, one at a time if they cannot be learned together; return those not learned."""
        if not self.fitted:
            batch, empty = with_features(batch)
            self.reasons.update({EMPTY: empty} if empty else {})
        X, y, numbers, weights = batch.X, batch.y, batch.line_numbers, batch.weights
        if not numbers:
            return []
        bad: list[BadRow] = []
        try:
            bad += self._partial_fit(X, y, weights, numbers)
        except (InputError, NumericalError):
            for i, line in enumerate(numbers):
                own = None if weights is None else weights[i : i + 1]
                try:
                    bad += self._partial_fit(X[i : i + 1], y[i : i + 1], own, [line])
                except (InputError, NumericalError) as error:
                    bad.append(self._bad_row(line, error, X[i], y[i]))
        self.tally.learned += len(numbers) - len(bad)
        return bad

    def _partial_fit(
        self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None, line_numbers: list[int]
    ) -> list[BadRow]:
        """Learn rows and return those that the guard refused."""
        before, empty = (self.gp.n_refused_, self.gp.n_empty_) if self.fitted else (0, 0)
        self.gp.partial_fit(X, y[:, 0] if y.shape[1] == 1 else y, weights)
        refused = np.flatnonzero(self.gp.refused_)
        # Earlier rows may be learned after all, and of the first rows some refused, now that more are there.
        earlier = self.gp.n_refused_ - before - refused.size
        empty = self.gp.n_empty_ - empty
        self.tally.refused += earlier
        self.tally.learned -= earlier + empty
        if empty:
            self.reasons[EMPTY] += empty
        return [BadRow(line_numbers[i], _REFUSED, row_text(X[i], y[i])) for i in refused]

    def _bad_row(self, line: int, error: Exception, x: np.ndarray, y: np.ndarray) -> BadRow:
        """Return the bad row that an error of the model makes, or raise DataError where one ends the run."""
        row = BadRow(line, f"cannot be used: {str(error).splitlines()[0]}", row_text(x, y))
        if self.on_error == "fail":
            raise self._failure(row)
        return row

    def _failure(self, row: BadRow) -> DataError:
        column, _, rest = row.reason.partition("=")
        if self.tally.rows == 0 and "is not a number (" in rest:
            remedy = "say how the file writes its numbers"
        elif self.tally.rows == 0 and rest.endswith("is not a number"):
            remedy = (
                "if the column never holds numbers, name it with --time or --categorical, or leave it out with "
                f"--ignore {column}"
            )
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


def _traced(session: Session, names: list[str], sums: Sums, seconds: float) -> Trace:
    """Return the trace of a session with one more batch."""
    members = session.gp.members_ if session.fitted else {}
    weights = np.array([np.ravel(w) for w in members.values()]).reshape(-1, len(session.targets))
    stretch = Stretch(1, session.tally.rows, names[0], names[-1], seconds, sums, weights)
    return session.trace.add(stretch, tuple(members))
