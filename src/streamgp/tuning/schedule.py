"""Schedule: when hyperparameters are tuned, and what the tunings came to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ..parameters import LATER, Settings
from .families import families_of
from .optimise import FEW_STEPS, STEPS, TAKEN, Search, Tuned
from .reservoir import SAMPLE
from .start import MIN_ROWS


@dataclass(frozen=True)
class Outcome:
    """What a tuning came to.

    Attributes
    ----------
    rows_seen : int
    verdict : str
        "taken", or why the hyperparameters stayed as they were.
    before, after : float
        The objective, a row and an output.
    evaluations : int
    seconds : float
    """

    rows_seen: int
    verdict: str
    before: float
    after: float
    evaluations: int
    seconds: float

    @property
    def taken(self) -> bool:
        """Whether the hyperparameters changed."""
        return self.verdict == TAKEN


@dataclass(frozen=True)
class Schedule:
    """Tunings so far.

    Attributes
    ----------
    centre : (p,)
        The kernel's theta at the start of the stream.
    tunings, tuned_at : int
        How many, and the rows seen at the last one (0: none).
    known : float
        Effective number of rows already seen at the last tuning; forgetting reduces it.
    begun : int
        The rows seen when most of the past was last given up: tunings come as often as at the start of a stream.
    outcome : Outcome or None
        Of the tuning at the last batch; None where there was none.
    seconds : float
        All the time that tunings held the stream up for.
    """

    centre: np.ndarray
    tunings: int = 0
    tuned_at: int = 0
    known: float = 0.0
    begun: int = 0
    outcome: Outcome | None = None
    seconds: float = 0.0

    def is_due(self, settings: Settings, rows_seen: int, effective_rows: float, sample_size: int) -> bool:
        """Return whether to tune now.

        "doubling": when at most half of the effective rows were there at the last tuning (the rows have doubled, or
        the past was forgotten), but not before the sample can be a new one.
        """
        # A stream that was not to be tuned at first has a small sample, or none.
        if settings.tune in ("none", LATER) or min(rows_seen, sample_size) < MIN_ROWS:
            return False
        if settings.tune == "doubling":
            waited = rows_seen - self.tuned_at >= min(self.tuned_at - self.begun, SAMPLE)
            return waited and self.known <= 0.5 * max(effective_rows, 1.0)
        return settings.tune == "continuous" or self.tunings < settings.initial_batches

    def search(self, settings: Settings) -> Search:
        """Return where and how long to search; a tuning at every batch starts where the last ended and takes a step."""
        few = settings.tune == "continuous" and self.tunings >= settings.initial_batches
        low, high = settings.bounds
        families, steps = families_of(settings.kernel), FEW_STEPS if few else STEPS
        return Search(self.centre, (low, high), settings.noise == "auto", steps, families)

    def faded(self, share: float, rows_seen: int) -> Self:
        """Return the schedule after all but `share` of the past was given up, after so many rows."""
        begun = rows_seen if share < 0.5 else self.begun
        return replace(self, known=share * self.known, begun=begun)

    def stepped(self, forgetting: float) -> Self:
        """Return the schedule at the next batch."""
        return replace(self, known=forgetting * self.known, outcome=None)

    def asked(self, rows_seen: int, known: float) -> Self:
        """Return the schedule with a tuning on what is known now: so many rows, of which so many count."""
        return replace(self, tuned_at=rows_seen, known=known)

    def after(self, tuned: Tuned, rows_seen: int, seconds: float) -> Self:
        """Return the schedule after a tuning was taken, or refused, which held the stream up for so many seconds."""
        values = (tuned.before, tuned.after, tuned.evaluations)
        outcome = Outcome(rows_seen, tuned.verdict, *values, seconds)
        return replace(self, tunings=self.tunings + 1, outcome=outcome, seconds=self.seconds + seconds)
