"""A run from a file or a pipe, shown on the page of the service while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...regressor import StreamingGPRegressor
from ..predictions import RowPredictions
from ..session import Session
from ..tables import BadRow, TableRows
from ..tally import Tally
from .feed import Feed
from .gate import LOOPBACK
from .metrics import Metrics
from .server import BesideServer, bound
from .watch import Watch
from .web import gated


@dataclass
class LiveRun:
    """A session as the page watches it."""

    session: Session
    feed: Feed
    exchanged: int = 0
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._before = self.session.tally.rows
        self._raised = self.session.alarms.count if self.session.alarms is not None else 0

    @property
    def gp(self) -> StreamingGPRegressor:
        """The model, as it is now."""
        return self.session.gp

    @property
    def tally(self) -> Tally:
        """The counts of the run."""
        return self.session.tally

    @property
    def level(self) -> float:
        """Probability of the intervals."""
        return self.session.level

    @property
    def fitted(self) -> bool:
        """Whether the model has learned anything."""
        return self.session.fitted

    def told(self) -> dict[str, Any]:
        """Return what the page tells of a run alone."""
        rate = (self.tally.rows - self._before) / max(time.monotonic() - self.began, 1e-9)
        return {"rows_a_second": round(rate, 1), "line": self.session.position.line}

    def saw(self, batch: TableRows, prediction: RowPredictions, not_learned: list[BadRow]) -> None:
        """Show a batch and its bad rows."""
        bad = {row.line for row in not_learned}
        learned = np.array([line not in bad for line in batch.line_numbers], dtype=bool)
        self.feed.add(batch.y, prediction, learned)
        for row in not_learned:
            self.feed.alarm("refused", f"line {row.line}: {row.reason}")
        if self.session.alarms is not None:
            new = self.session.alarms.count - self._raised
            for alarm in self.session.alarms.kept[-new:] if new else ():
                self.feed.alarm("rule", alarm.text)
            self._raised += new


@contextmanager
def shown(session: Session, source: str, port: int) -> Iterator[str]:
    """Show a session at a port of this machine; yield the address."""
    run = LiveRun(session, Feed(session.targets, session.level))
    watch = Watch(run, Metrics(run), source, more=run.told)
    session.on_batch = run.saw
    server = BesideServer(gated(watch.routes(), watch, hosts=LOOPBACK, token=None), bound("127.0.0.1", port))
    watch.closing = lambda: server.closing
    server.start()
    try:
        yield server.address
    finally:
        server.stop()
