"""Work beside the stream: a thread that computes one thing, is waited for, and does not outlive the process."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from ._arrays import in_one_thread, one_blas_thread

T = TypeVar("T")
# At the end of the process a thread is given so many seconds to come to its next step.
PATIENCE = 10.0


class StoppedError(Exception):
    """What the work was for is gone."""


class Running(Generic[T]):
    """Work in a thread of its own; it ends at its next step once it is stopped.

    `work` is called with a function that it may call at each of its steps.
    """

    def __init__(self, work: Callable[[Callable[[], None]], T], name: str) -> None:
        self.process = os.getpid()
        self._changed, self._steps = threading.Condition(), 0
        self._stopped, self._done = False, False
        self._found: T | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, args=(work,), name=name, daemon=True)
        self._thread.start()
        _running.add(self)

    @property
    def here(self) -> bool:
        """Whether the thread is of this process; it does not survive a fork."""
        return self.process == os.getpid()

    def _work(self, work: Callable[[Callable[[], None]], T]) -> None:
        found, error = None, None
        try:
            with one_blas_thread(), in_one_thread():
                found = work(self._step)
        except StoppedError:
            pass
        except Exception as raised:  # raised again where the result is asked for
            error = raised
        finally:
            with self._changed:
                self._found, self._error, self._done = found, error, True
                self._changed.notify_all()

    def _step(self) -> None:
        with self._changed:
            if self._stopped:
                raise StoppedError
            self._steps += 1
            self._changed.notify_all()

    def wait_for(self, steps: float) -> None:
        """Wait until so many steps are done, or the work has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._done or self._steps >= steps)

    def found(self) -> T | None:
        """Wait for the end; return what was found, None where the work was stopped, or raise what went wrong."""
        self.wait_for(np.inf)
        if self._error is not None:
            raise self._error
        return self._found

    def stop(self) -> None:
        """Let the work end soon; its thread does not outlive that."""
        with self._changed:
            self._stopped = True

    def join(self, seconds: float) -> None:
        """Wait for the thread to end, not longer than so many seconds."""
        self._thread.join(seconds)


class Task(Generic[T]):
    """Work in a thread that is stopped when nothing refers to the task any more."""

    def __init__(self, work: Callable[[Callable[[], None]], T], name: str) -> None:
        self.running = Running(work, name)
        weakref.finalize(self, self.running.stop)


def task_of(owner: object) -> Running[Any] | None:
    """Return the work that `owner` has begun in this process, if any."""
    task: Task[Any] | None = owner.__dict__.get("task")
    return task.running if task is not None and task.running.here else None


_running: weakref.WeakSet[Running[Any]] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Stop all work before the interpreter takes its modules away."""
    working = [running for running in _running if running.here]
    for running in working:
        running.stop()
    end = time.monotonic() + PATIENCE
    for running in working:
        running.join(max(end - time.monotonic(), 0.0))
