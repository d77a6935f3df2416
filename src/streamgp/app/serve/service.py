"""A served model: what it predicts, how it learns a batch, what a checkpoint of it holds. No thread, no network."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..._arrays import one_blas_thread
from ...answers import Question, answer
from ...checks import check_rows
from ...columns import StreamColumns
from ...errors import InputError, NumericalError
from ...learned import gaussian
from ...online.answered import AnswerMemory, keys_of
from ...parameters import MERGEABLE
from ...regressor import StreamingGPRegressor
from ..alarms import Alarms, Scored, parse_all
from ..predictions import RowPredictions
from ..tally import Tally
from .arrivals import Arrivals, advanced
from .feed import Feed
from .kept import Arrival, Kept, arrival_of, packed, unpacked
from .rows import Columns, RawRows, Refusal

# What raises an alarm unless something else is asked for; no value to predict from may be missing here.
RULES = ("coverage", "rmse", "bias", "drift")
NOTHING_LEARNED = Refusal(409, "nothing was learned yet", "send rows with targets to /learn first")


@dataclass(frozen=True)
class Predicted:
    """What was said of some rows, by a model that had learned so many; `kept` where their ids ask for it."""

    said: RowPredictions
    rows_learned: int
    kept: tuple[Kept, ...] = ()


@dataclass
class Service:
    """A model and what is known of its stream. One thread learns; any thread predicts.

    Attributes
    ----------
    gp : StreamingGPRegressor
    columns : Columns
    level : float
        Probability of the intervals.
    most_ids : int
        Ids that are kept: of predicted rows without a label, and of learned rows.
    tally, feed, alarms
        Scores of the stream, what the page shows, and the rules that raise alarms.
    number : int
        Of the last record of the log that was learned.
    kept : dict of Kept
        By id, the oldest first.
    learned : dict of None
        Ids of the last learned rows, the oldest first: rows that come again are not learned twice.
    lost_ids, exchanged : int
        Answers given up because too many were kept; inducing points that were exchanged.
    arrivals : Arrivals
        What the columns have shown so far.
    brought : dict
        What else the file of the model held, and is written back.
    """

    gp: StreamingGPRegressor
    columns: Columns
    level: float
    most_ids: int
    tally: Tally
    feed: Feed
    alarms: Alarms
    number: int = 0
    kept: dict[str, Kept] = field(default_factory=dict)
    learned: dict[str, None] = field(default_factory=dict)
    lost_ids: int = 0
    exchanged: int = 0
    arrivals: Arrivals = field(default_factory=Arrivals)
    brought: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ids, self._fitted = threading.Lock(), 0

    @classmethod
    def new(
        cls,
        gp: StreamingGPRegressor,
        columns: Columns,
        level: float,
        most_ids: int,
        rules: Sequence[str] = RULES,
        transformer: StreamColumns | None = None,
    ) -> Service:
        """Return the service of a model that has no history here."""
        targets = columns.targets
        alarms = Alarms.of(parse_all(rules, level), targets, ())
        tally, feed = Tally(len(targets)), Feed(targets, level)
        return cls(gp, columns, level, most_ids, tally, feed, alarms, arrivals=Arrivals(transformer))

    def begin(self, features: tuple[str, ...]) -> None:
        """Take the names of the inputs from the first row."""
        self.arrivals.begin(features)
        self.columns = replace(self.columns, features=features)

    def arrival(self, ids: Sequence[str | None], raw: RawRows) -> Arrival:
        """Return rows that are predicted under ids; those that are kept already do not arrive again."""
        named = [None if name in self.learned else name for name in ids]
        return arrival_of(self.arrivals.state, named, raw, self.kept)

    @property
    def _rules(self) -> tuple[str, ...]:
        return tuple(str(rule) for rule in self.alarms.rules)

    @property
    def fitted(self) -> bool:
        """Whether the model has learned anything."""
        return bool(self.gp.__sklearn_is_fitted__())

    def predict(self, X: np.ndarray, *, keep: bool = False) -> Predicted:
        """Predict the rows X (m, d) by one snapshot of the model; raise Refusal where that is impossible."""
        if not self.fitted:
            raise NOTHING_LEARNED
        learner = gaussian(self.gp.learner_, "serving")
        memory, numbers = None, None
        if keep:
            memory = AnswerMemory(self.gp.answered_.kept.take(slice(0)))
            numbers = np.arange(X.shape[0])
        try:
            X = check_rows(X, learner.columns, learner.like, incomplete=learner.imputation is not None)
            with one_blas_thread(X):
                found = answer(learner, X, Question(std=True, interval=self.level), memory, numbers)
        except (InputError, NumericalError) as error:
            raise Refusal(422, str(error).splitlines()[0], "correct the rows, or leave them out") from error
        said = RowPredictions(*(np.asarray(v, dtype=float).reshape(X.shape[0], -1) for v in found))
        kept: tuple[Kept, ...] = ()
        if memory is not None:
            each = memory.kept
            kept = tuple(Kept(X[i], _only(said, [i]), each.take(slice(i, i + 1))) for i in range(X.shape[0]))
        return Predicted(said, learner.rows_seen, kept)

    def predict_kept(self, arrival: Arrival, raw: RawRows) -> Predicted:
        """Predict rows that arrive under ids."""
        found = self.predict(arrival.X, keep=True)
        if arrival.state is None:
            return found
        rows = zip(found.kept, arrival.rows, strict=True)
        kept = tuple(replace(k, raw=raw.take([i]), row=int(row)) for i, (k, row) in enumerate(rows))
        return replace(found, kept=kept)

    def keep(self, ids: Sequence[str | None], kept: Sequence[Kept]) -> None:
        """Keep rows under their ids until their labels come; the oldest go where there are too many."""
        with self._ids:
            for name, row in zip(ids, kept, strict=True):
                if name is not None and name not in self.learned:
                    self.kept.pop(name, None)
                    self.kept[name] = row
            while len(self.kept) > self.most_ids:
                self.kept.pop(next(iter(self.kept)))
                self.lost_ids += 1

    def learn(self, record: dict[str, Any], number: int) -> list[str | np.ndarray]:
        """Learn a record of the log: the rows of several requests; return which rows of each the guard refused, (b,).

        For a request that could not be learned, return the reason instead.

        Rows are learned together, or request by request where that is impossible. The same record after the same
        records gives the same model, bit for bit.
        """
        X, y, ids = record["X"], record["y"], record["ids"]
        began, fitted = time.perf_counter(), self.fitted
        said, failures = self._said(X, record), np.zeros(X.shape[0], dtype=bool)
        before = self._pivots()
        refused = np.zeros(X.shape[0], dtype=bool)
        errors: dict[int, str] = {}
        ends = np.cumsum([0, *record["sizes"]])
        try:
            refused = self._fit(X, y, record)
        except (
            Exception
        ):  # whatever it is: a record that was logged must be read again without an end of the server
            for i, rows in enumerate(slice(a, b) for a, b in pairwise(ends)):
                try:
                    refused[rows] = self._fit(X[rows], y[rows], _part(record, rows))
                except Exception as error:
                    errors[i], failures[rows] = (str(error) or type(error).__name__).splitlines()[0], True
        self.exchanged += _changed(before, self._pivots())
        self._count(record, said, refused, failures, time.perf_counter() - began, fitted)
        with self._ids:
            for name in (
                name for name, bad in zip(ids, failures, strict=True) if name is not None and not bad
            ):
                self.kept.pop(name, None)
                self.learned[name] = None
            while len(self.learned) > self.most_ids:
                self.learned.pop(next(iter(self.learned)))
        self.number = number
        return [errors.get(i, refused[a:b]) for i, (a, b) in enumerate(pairwise(ends))]

    def _said(self, X: np.ndarray, record: dict[str, Any]) -> RowPredictions:
        """Return what was said of the rows when they were predicted under their ids, else what the model says now."""
        q = len(self.columns.targets)
        try:
            said = self.predict(X).said
        except Refusal:
            said = RowPredictions.constant(X.shape[0], q)
        for i, before in zip(record["answered"], record["said"], strict=True):
            for part, value in zip((said.mean, said.std, said.low, said.high), before, strict=True):
                part[i] = value
        return said

    def _fit(self, X: np.ndarray, y: np.ndarray, record: dict[str, Any]) -> np.ndarray:
        """Learn rows, scored by earlier answers where there are any; return which the guard refused, (b,)."""
        # Each time others: of two answers that one model gave under one id, the memory would keep the first.
        ids, memory, added = self._fitted + np.arange(X.shape[0]), None, None
        self._fitted += X.shape[0]
        if record["answers"] is not None and len(record["answered"]):
            memory = self.gp.answered_
            keys, a = keys_of(X, ids)[list(record["answered"])], record["answers"]
            for i in range(keys.size):
                one = a.take(slice(i, i + 1))
                memory.add(
                    keys[i : i + 1], one.mean, one.variance, one.noise, one.members, rows=int(one.rows[0])
                )
            added = keys
        try:
            self.gp.partial_fit(X, y[:, 0] if y.shape[1] == 1 else y, ids=ids)
        finally:
            if memory is not None and added is not None:
                memory.drop(memory.find(added, -1)[1])
        refused = self.gp.refused_
        return np.array(refused) if refused.size == X.shape[0] else np.zeros(X.shape[0], dtype=bool)

    def _count(
        self, record: dict[str, Any], said: RowPredictions, refused: np.ndarray, failures: np.ndarray,
        seconds: float, fitted: bool,
    ) -> None:  # fmt: skip
        """Score and count a batch, and show it."""
        learned, y = ~(refused | failures), record["y"]
        score = self.tally.score(
            np.where(learned[:, None] & np.isfinite(said.mean), y, np.nan),
            said.mean,
            said.std,
            (said.low, said.high),
        )
        self.tally.rows += y.shape[0]
        self.tally.learned += int(learned.sum())
        self.tally.refused += int(refused.sum())
        self.tally.bad += int(failures.sum())
        self.tally.add_batch(score, seconds)
        self.feed.add(y, said, learned)
        for i in np.flatnonzero(refused):
            value = ", ".join(f"{n}={v:.6g}" for n, v in zip(self.columns.targets, y[i], strict=True))
            row = self.feed.rows - y.shape[0] + int(i) + 1
            self.feed.alarm(
                "refused", f"{value} was refused by the guard: too far from what was learned", row
            )
        self._watch(record, said, refused | failures)

    def _watch(self, record: dict[str, Any], said: RowPredictions, refused: np.ndarray) -> None:
        """Let the alarms look at the rows of a batch."""
        y, n = record["y"], record["y"].shape[0]
        inside, lines = (said.low <= y) & (y <= said.high), np.arange(self.feed.rows - n, self.feed.rows) + 1
        names = [name or f"row {i:,}" for name, i in zip(record["ids"], lines, strict=True)]
        scored = Scored(lines, y, said.mean, said.std, inside, refused, np.zeros((n, 0), dtype=bool), names)
        self.alarms, raised = self.alarms.add(scored)
        for alarm in raised:
            self.feed.alarm("rule", alarm.text, alarm.line)

    def _pivots(self) -> np.ndarray | None:
        if not self.fitted or self.gp.method not in MERGEABLE:
            return None
        return np.asarray(self.gp.learner_.inducing_points)

    def snapshot(self) -> dict[str, Any]:
        """Return what other threads change, as it is now, for `save`."""
        with self._ids:
            ids, kept, learned = tuple(self.kept), list(self.kept.values()), tuple(self.learned)
        told = {"ids": ids, "kept": packed(kept), "learned": learned, "lost_ids": self.lost_ids}
        return {"columns": self.arrivals.to_dict(), "service": told}

    def save(self, path: Path, number: int, snapshot: dict[str, Any]) -> None:
        """Write a checkpoint that holds all records up to this number, as of the snapshot."""
        service = {
            "number": number, "level": self.level, "tally": self.tally.to_dict(), "feed": self.feed.to_dict(),
            "exchanged": self.exchanged, "alarms": self.alarms.to_dict(), "rules": self._rules,
            **snapshot["service"],
        }  # fmt: skip
        more = {**self.brought, "columns": snapshot["columns"], "service": service}
        self.gp.save(path, features=self.columns.features, targets=self.columns.targets, **more)

    def restore(self, content: dict[str, Any]) -> None:
        """Take over what `save` wrote beside the model."""
        self.number, self.lost_ids = content["number"], content["lost_ids"]
        self.exchanged = content["exchanged"]
        if content["rules"] == self._rules:  # others begin anew
            self.alarms = self.alarms.restored(content["alarms"])
        self.tally = Tally.from_dict(content["tally"])
        self.feed = Feed.from_dict(self.columns.targets, self.level, content["feed"])
        self.kept = dict(zip(content["ids"], unpacked(content["kept"]), strict=True))
        self.learned = dict.fromkeys(content["learned"])

    def replay(self, record: dict[str, Any], number: int) -> None:
        """Do again what a record of the log says."""
        if record["kind"] == "kept":
            kept = unpacked(record["kept"])
            came = [raw for raw in (kept[i].raw for i in record["new"]) if raw is not None]
            if came:
                self.arrivals.moved_on(advanced(self.arrivals.state, RawRows.joined(came)).state)
            self.keep(record["ids"], kept)
            self.number = number
            return
        if not self.columns.features:
            self.begin(record["features"])
        self.arrivals.again(record)
        self.learn(record, number)


def _only(said: RowPredictions, rows: Any) -> RowPredictions:
    return RowPredictions(said.mean[rows], said.std[rows], said.low[rows], said.high[rows])


def _part(record: dict[str, Any], rows: slice) -> dict[str, Any]:
    """Return the answers of a part of a record."""
    at = np.array(record["answered"], dtype=int)
    inside = (at >= rows.start) & (at < rows.stop)
    answers = None if record["answers"] is None else record["answers"].take(inside)
    return {"answered": tuple((at[inside] - rows.start).tolist()), "answers": answers}


def _changed(before: np.ndarray | None, after: np.ndarray | None) -> int:
    """Return how many inducing points gave way to others."""
    if before is None or after is None or before.shape[0] > after.shape[0]:
        return 0
    return int((before != after[: before.shape[0]]).any(axis=1).sum())
