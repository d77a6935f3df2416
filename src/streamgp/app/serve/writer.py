"""The one thread that learns: it gathers requests of a few milliseconds, logs them, learns them, answers them."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...columns.state import ColumnState
from ...errors import DataError
from . import arrivals
from . import log as logs
from .kept import Kept, packed, table
from .log import Log
from .rows import Labelled, RawRows, Refusal
from .service import Predicted, Service

# Seconds between two looks whether a checkpoint is due while nothing comes.
_IDLE = 0.5
_CHANGED = Refusal(409, "the columns are not those that the model learned first", "look at GET /model")


@dataclass(frozen=True)
class Pace:
    """How the writer gathers and saves.

    Attributes
    ----------
    max_wait : float
        Seconds that a request waits for others to be learned with it.
    batch : int
        Rows that are learned at once, at most, unless one request has more.
    queue : int
        Requests that may wait; more are turned away.
    every, seconds : int, float
        A checkpoint is written after so many rows, or seconds if there is anything new.
    """

    max_wait: float = 0.005
    batch: int = 1000
    queue: int = 256
    every: int = 10_000
    seconds: float = 60.0


@dataclass(frozen=True)
class Learned:
    """The answer to a request.

    Attributes
    ----------
    learned, duplicates : int
        Rows learned now, and rows whose ids were learned before.
    refused : tuple of int
        Rows of the request that the guard refused.
    rows_learned : int
        Rows that the model has learned in all.
    """

    learned: int
    duplicates: int
    refused: tuple[int, ...]
    rows_learned: int


@dataclass(frozen=True)
class _Rows:
    """The rows of one request to be learned, their places in it, and what was said of some of them before.

    `raw` are those that arrive now, None where all columns are numbers.
    """

    features: tuple[str, ...]
    X: np.ndarray
    y: np.ndarray
    ids: tuple[str | None, ...]
    kept: dict[int, Kept]
    places: list[int]
    duplicates: int
    raw: RawRows | None


class Writer:
    """Learns requests in their order, in a thread of its own, and writes checkpoints.

    Parameters
    ----------
    service : Service
    log : Log
        Where rows go before they are learned.
    path : Path
        Of the checkpoint.
    pace : Pace
    saved : tuple of int
        Number of the last record that the checkpoint holds, and of the rows in it.

    Attributes
    ----------
    saved_at : float
        When the last checkpoint was written; where there is none, when the service began.
    failure : str
        Why nothing can be learned or saved at present; empty where all is well.
    """

    def __init__(self, service: Service, log: Log, path: Path, pace: Pace, saved: tuple[int, int]) -> None:
        self.service, self.path, self.pace = service, path, pace
        self.saved_at = path.stat().st_mtime if path.exists() else time.time()
        self.failure = ""
        self._log, self._durable = log, not isinstance(log, logs.NoLog)
        (self._saved_number, self._saved_rows), self._due = saved, time.monotonic()
        self._queue: queue.Queue[tuple[Labelled, Future[Learned]] | None] = queue.Queue(pace.queue)
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        """Begin to learn."""
        self._thread.start()

    def stop(self) -> None:
        """Learn what is waiting, write a checkpoint, end."""
        self._queue.put(None)
        self._thread.join()
        self._log.close()

    def submit(self, rows: Labelled) -> Future[Learned]:
        """Let rows be learned; raise Refusal where too many requests wait."""
        future: Future[Learned] = Future()
        future.set_running_or_notify_cancel()  # rows that are being learned cannot be called back
        try:
            self._queue.put_nowait((rows, future))
        except queue.Full:
            raise Refusal(
                503, "too many requests wait to be learned", "send this one again a little later"
            ) from None
        return future

    def predict(self, ids: tuple[str | None, ...], raw: RawRows) -> Predicted:
        """Predict rows and keep them for their labels; with a log, they are on the disk when this returns."""
        service = self.service
        try:
            with service.arrivals.lock:
                arrival = service.arrival(ids, raw)
                found = service.predict_kept(arrival, raw)
                named = [i for i, name in enumerate(ids) if name is not None]
                names, kept = tuple(ids[i] for i in named), [found.kept[i] for i in named]
                new = tuple(named.index(i) for i in arrival.new if ids[i] is not None)
                record = {"kind": "kept", "ids": names, "kept": packed(kept), "new": new}
                number = self._log.write(record if self._durable else {})
                service.keep(names, kept)
                service.arrivals.moved_on(arrival.state)
            self._log.sync(number)
        except DataError as error:
            raise Refusal(503, f"the rows were not kept: {error}", "send them again later") from error
        return found

    def told(self) -> dict[str, Any]:
        """Return what the page tells of the writer."""
        return {
            "features": list(self.service.columns.features), "ids_kept": len(self.service.kept),
            "ids_lost": self.service.lost_ids, "checkpoint_age": round(time.time() - self.saved_at, 1),
            "waiting": self._queue.qsize(), "durable": self._durable,
        }  # fmt: skip

    def _run(self) -> None:
        open_ = True
        while open_:
            gathered, open_ = self._gathered()
            if gathered:
                self._learn(gathered)
            if self._is_due() or not open_:
                self._save()

    def _gathered(self) -> tuple[list[tuple[Labelled, Future[Learned]]], bool]:
        """Return requests that came within `max_wait` of the first, and whether more may come."""
        try:
            item = self._queue.get(timeout=_IDLE)
        except queue.Empty:
            return [], True
        found, until, rows = [], time.monotonic() + self.pace.max_wait, 0
        while item is not None:
            found.append(item)
            rows += item[0].y.shape[0]
            if rows >= self.pace.batch:
                return found, True
            try:
                item = self._queue.get(timeout=max(until - time.monotonic(), 0))
            except queue.Empty:
                return found, True
        return found, False

    def _learn(self, gathered: list[tuple[Labelled, Future[Learned]]]) -> None:
        """Learn the requests that can be, as one batch, and answer all."""
        accepted: list[tuple[_Rows, Future[Learned]]] = []
        try:
            with self.service.arrivals.lock:
                state = self._sort_out(gathered, accepted)
                if not accepted:
                    return
                record = _record([rows for rows, _ in accepted])
                number = self._log.write(record)
                self.service.arrivals.moved_on(state)
            self._log.sync(number)
            outcomes = self.service.learn(record, number)
        except Exception as error:  # the disk is full, or a fault of ours
            self.service.feed.alarm("failure", f"nothing was learned: {error}")
            self.failure = str(error)
            for _, future in accepted:
                future.set_exception(Refusal(503, f"nothing was learned: {error}", "send it again later"))
            return
        self.failure = ""
        for (rows, future), outcome in zip(accepted, outcomes, strict=True):
            if isinstance(outcome, str):
                future.set_exception(Refusal(422, outcome, "correct the rows, or leave them out"))
                continue
            refused = tuple(rows.places[i] for i in np.flatnonzero(outcome))
            future.set_result(
                Learned(rows.y.shape[0] - len(refused), rows.duplicates, refused, self._rows_learned)
            )

    def _sort_out(
        self, gathered: list[tuple[Labelled, Future[Learned]]], accepted: list[tuple[_Rows, Future[Learned]]]
    ) -> ColumnState | None:
        """Add the requests that can be learned to `accepted`, answer the others; return the columns after them."""
        names: set[str] = set()
        state = self.service.arrivals.state
        for request, future in gathered:
            try:
                rows, after = self._resolved(request, names, state)
            except Exception as error:  # a Refusal, or a fault of ours, which must not end the thread
                future.set_exception(error)
                continue
            if rows.y.shape[0]:
                accepted.append((rows, future))
                names.update(name for name in rows.ids if name is not None)
                state = after
            else:
                future.set_result(Learned(0, rows.duplicates, (), self._rows_learned))
        return state

    @property
    def _rows_learned(self) -> int:
        service = self.service
        return service.gp.n_samples_seen_ if service.fitted else 0

    def _resolved(
        self, request: Labelled, taken: set[str], state: ColumnState | None
    ) -> tuple[_Rows, ColumnState | None]:
        """Return the rows of a request that are new, and the columns after them, which are `state` before.

        Raise Refusal for an id that is not known, and for a time that is none.
        """
        service, n = self.service, request.y.shape[0]
        ids = request.ids or (None,) * n
        kept: dict[int, Kept] = {}
        rows: list[int] = []
        for i, name in enumerate(ids):
            if name is not None and name in service.learned:
                continue
            if name in taken:
                raise Refusal(503, f"id {name!r} of row {i} is being learned", "send the row again", row=i)
            known = None if name is None else service.kept.get(name)
            if known is not None and (request.raw is None or known.is_row(request.raw, i)):
                kept[len(rows)] = known
            elif request.raw is None:
                raise Refusal(
                    404, f"id {str(name)[:60]!r} of row {i} is not kept: it was not predicted, or too long ago",
                    "send the row with its target", row=i, column="id",
                )  # fmt: skip
            rows.append(i)
        if request.raw is not None:
            if not service.columns.features:
                service.begin(request.features)
                state = service.arrivals.state
            elif request.features != service.columns.features:
                raise _CHANGED
        y, new = request.y[rows], [i for at, i in enumerate(rows) if at not in kept]
        raw = RawRows(np.empty((0, 0)), ()) if request.raw is None else request.raw.take(new)
        came = arrivals.learned(state, raw, y, {at: row.row for at, row in kept.items()}, rows)
        found = _Rows(
            service.columns.features, _merged(came.X, kept, len(rows)), y, tuple(ids[i] for i in rows), kept, rows,
            n - len(rows), None if came.state is None else raw,
        )  # fmt: skip
        return found, came.state

    def _is_due(self) -> bool:
        new = self.service.tally.rows - self._saved_rows
        late = time.monotonic() - self._due > self.pace.seconds and self._log.number > self._saved_number
        return new >= self.pace.every or late

    def _save(self) -> None:
        """Write a checkpoint, and remove the part of the log that it holds."""
        if not self.service.fitted or self._log.number == self._saved_number:
            return
        self._due = time.monotonic()
        try:
            with self.service.arrivals.lock:
                number, snapshot = self._log.begin_segment(), self.service.snapshot()
            self.service.save(self.path, number, snapshot)
            self._log.forget(number)
        except Exception as error:  # the thread goes on, and the next checkpoint may be written
            self.failure = str(error)
            self.service.feed.alarm("failure", f"no checkpoint: {error}")
            return
        self.saved_at, self._saved_number, self._saved_rows = time.time(), number, self.service.tally.rows


def _merged(X: np.ndarray, kept: dict[int, Kept], n: int) -> np.ndarray:
    """Return the features of n rows: those that are kept in their places, X in the others."""
    if not kept:
        return X
    out = np.empty((n, next(iter(kept.values())).x.size))
    if new := [i for i in range(n) if i not in kept]:
        out[new] = X
    for i, row in kept.items():
        out[i] = row.x
    return out


def _record(parts: list[_Rows]) -> dict[str, Any]:
    """Return requests as a record of the log, with all that learning them needs."""
    starts = np.cumsum([0, *(rows.y.shape[0] for rows in parts)])
    kept = {int(starts[i]) + at: row for i, rows in enumerate(parts) for at, row in rows.kept.items()}
    content = packed(list(kept.values()))
    raws = [rows.raw for rows in parts if rows.raw is not None and rows.raw.texts]
    raw = RawRows.joined(raws) if raws else RawRows(np.empty((0, 0)), ())
    return {
        "kind": "learned", "features": parts[0].features, "sizes": tuple(rows.y.shape[0] for rows in parts),
        "X": np.concatenate([rows.X for rows in parts]), "y": np.concatenate([rows.y for rows in parts]),
        "ids": tuple(name for rows in parts for name in rows.ids),
        "answered": tuple(kept), "answers": content and content["answers"],
        "rows": np.array([row.row for row in kept.values()], dtype=np.int64),
        "numbers": raw.numbers, "texts": raw.texts,
        "said": np.empty((0, 4, parts[0].y.shape[1])) if content is None else table(list(kept.values())),
    }  # fmt: skip


def start(service: Service, path: Path, pace: Pace, *, durable: bool) -> Writer:
    """Return a writer that goes on where the checkpoint and the log end; it is not started yet."""
    saved = service.number, service.tally.rows
    for number, record in logs.read(path, service.number):
        service.replay(record, number)
    if durable:
        return Writer(service, logs.FileLog(path, service.number), path, pace, saved)
    if service.number > saved[0] and service.fitted:
        service.save(path, service.number, service.snapshot())
    logs.remove(path)
    return Writer(service, logs.NoLog(service.number), path, pace, (service.number, service.tally.rows))
