"""Tuning beside the stream: hyperparameters are sought in a thread, and taken at a row that is fixed beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..beside import Running, StoppedError, Task, task_of
from ..kernels import Kernel
from .on_rows import tune_on_rows
from .optimise import Search, Tuned, following_steps
from .reservoir import SAMPLE, Reservoir

# The rows for which a search may go on: in proportion to its cost, which is cubic in the rows of its sample
# (docs/latency.md).
LEAST_ROWS, MOST_ROWS = 50, 250
# About how many evaluations a search takes: by it the stream sees whether a search is late.
EVALUATIONS = 150


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
        running = task_of(self)
        found: Tuned | None = None if running is None else running.found()
        return found or _sought(self.kernel, self.noise, self.sample, self.kind, self.search)

    def _begun(self) -> Running[Tuned]:
        running = task_of(self)
        if running is None:
            given = (self.kernel, self.noise, self.sample, self.kind, self.search)

            def work(step: Callable[[], None]) -> Tuned:
                with following_steps(step):
                    return _sought(*given)

            task = self.__dict__["task"] = Task(work, "streamgp-tuning")
            running = task.running
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
    except StoppedError:
        raise
    except Exception as error:  # in a thread there is nobody to catch it
        return Tuned(kernel, noise, f"failed: {error}")


def rows_given(sampled: int, count: float) -> int:
    """Return for how many rows a search on a sample of so many rows may go on; not more than count after forgetting."""
    cost = min(sampled / SAMPLE, 1.0) ** 3
    return max(LEAST_ROWS, round(min(MOST_ROWS * cost, count)))
