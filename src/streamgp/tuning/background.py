"""Tuning beside the stream: hyperparameters are sought in a thread, and taken at a row that is fixed beforehand."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._arrays import in_one_thread, one_blas_thread
from ..kernels import Kernel
from .on_rows import tune_on_rows
from .optimise import Search, Tuned, following_steps
from .reservoir import SAMPLE, Reservoir

# The rows for which a search may go on: in proportion to its cost, which is cubic in the rows of its sample
# (docs/latency.md).
LEAST_ROWS, MOST_ROWS = 50, 250
# About how many evaluations a search takes: by it the stream sees whether a search is late.
EVALUATIONS = 150
# At the end of the process a thread is given so many seconds to come to its next evaluation.
PATIENCE = 10.0


class _StoppedError(Exception):
    """The model that a search was for is gone."""


class Running:
    """A search in a thread of its own. It ends at its next evaluation once it is stopped."""

    def __init__(self, search: Callable[[], Tuned]) -> None:
        self.process = os.getpid()
        self._changed, self._evaluations = threading.Condition(), 0
        self._stopped, self._done = False, False
        self._found: Tuned | None = None
        self._thread = threading.Thread(
            target=self._work, args=(search,), name="streamgp-tuning", daemon=True
        )
        self._thread.start()
        _running.add(self)

    def _work(self, search: Callable[[], Tuned]) -> None:
        found = None
        try:
            with one_blas_thread(), in_one_thread(), following_steps(self._step):
                found = search()
        except _StoppedError:
            pass
        finally:
            with self._changed:
                self._found, self._done = found, True
                self._changed.notify_all()

    def _step(self) -> None:
        with self._changed:
            if self._stopped:
                raise _StoppedError
            self._evaluations += 1
            self._changed.notify_all()

    def wait_for(self, evaluations: float) -> None:
        """Wait until so many evaluations are done, or the search has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._done or self._evaluations >= evaluations)

    def found(self) -> Tuned | None:
        """Wait for the end, and return what was found; None where the search was stopped."""
        self.wait_for(np.inf)
        return self._found

    def stop(self) -> None:
        """Let the search end soon; its thread does not outlive that."""
        with self._changed:
            self._stopped = True

    def join(self, seconds: float) -> None:
        """Wait for the thread to end, not longer than so many seconds."""
        self._thread.join(seconds)


_running: weakref.WeakSet[Running] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Stop every search before the interpreter takes its modules away."""
    searches = [running for running in _running if running.process == os.getpid()]
    for running in searches:
        running.stop()
    end = time.monotonic() + PATIENCE
    for running in searches:
        running.join(max(end - time.monotonic(), 0.0))


@dataclass(frozen=True)
class Asked:
    """A tuning that was asked for: all that it depends on, and the row at which it is taken.

    What is found depends on these fields alone: not on when its thread runs, nor on whether there is one. Copies,
    pickles and checkpoints hold the fields; the search then begins again.

    Attributes
    ----------
    kernel, noise : Kernel, (q,)
        Where the search begins.
    sample : Reservoir
    kind : str
        The objective.
    search : Search
    at, due : int
        The rows seen when it was asked for, and when it is taken.
    """

    kernel: Kernel
    noise: np.ndarray
    sample: Reservoir
    kind: str
    search: Search
    at: int
    due: int

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def keep_pace(self, rows_seen: int) -> None:
        """Start the search if it does not run; where it is late, wait a little at each batch and not all at the end."""
        share = (rows_seen - self.at) / max(self.due - self.at, 1)
        self._begun().wait_for(EVALUATIONS * min(max(share, 0.0), 1.0))

    def found(self) -> Tuned:
        """Return what was found, waiting for it if its thread runs still; without a thread it is sought now."""
        running: Running | None = self.__dict__.get("running")
        if running is not None and running.process == os.getpid():
            found = running.found()
            if found is not None:
                return found
        return _sought(self.kernel, self.noise, self.sample, self.kind, self.search)

    def _begun(self) -> Running:
        running: Running | None = self.__dict__.get("running")
        if running is None or running.process != os.getpid():  # a thread does not survive a fork
            given = (self.kernel, self.noise, self.sample, self.kind, self.search)
            running = Running(lambda: _sought(*given))
            self.__dict__["running"] = running
            weakref.finalize(self, running.stop)
        return running


def _sought(kernel: Kernel, noise: np.ndarray, sample: Reservoir, kind: str, search: Search) -> Tuned:
    """Tune on the sample; what goes wrong is the verdict, and the hyperparameters stay."""
    try:
        return tune_on_rows(
            kernel,
            noise,
            sample.X,
            sample.y,
            kind=kind,
            search=search,
            numbers=sample.numbers,
            weights=sample.weights,
        )
    except _StoppedError:
        raise
    except Exception as error:  # in a thread there is nobody to catch it
        return Tuned(kernel, noise, f"failed: {error}")


def rows_given(sampled: int, count: float) -> int:
    """Return for how many rows a search on a sample of so many rows may go on; not more than count after forgetting."""
    cost = min(sampled / SAMPLE, 1.0) ** 3
    return max(LEAST_ROWS, round(min(MOST_ROWS * cost, count)))
