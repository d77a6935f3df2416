"""Pivots that are out of use: what they are worth to a stream whose newest rows need pivots of their own.

A pivot is idle if it explains far less of the last rows than of all rows so far. On inputs that never come back (time,
a random walk) every old pivot is idle for good and can be exchanged; where a stream returns to earlier inputs, idle
pivots come back into use. How often they do is counted, so that a pivot's past counts for as much as it turns out to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from .._arrays import Array, double, namespace, product, to_host
from ..gp.features import Pivots
from .rows import Rows

# A pivot is idle if it explains less of the last rows than this share of what it explains of all rows; also if both are
# nothing beside what the other pivots explain, as of one whose past was forgotten.
IDLE, NOTHING = 0.1, 1e-3
# Looks ahead, of about 100 rows each, at which a pivot that comes back is still worth its place: 1,000 rows.
HORIZON = 10.0
# A look is out of date after EARLY rows if MOVED times as much is left of a row as of the recent rows then.
EARLY, MOVED = 25, 4.0
# Looks that lead to no exchange are followed by rarer ones, up to so many times as rare.
RAREST = 4
# What is counted fades by this at each look: the last 100 looks count.
FADING = 0.99


@dataclass(frozen=True)
class IdlePivots:
    """Which pivots are idle, what each is worth, and how many of those that were idle came back.

    Attributes
    ----------
    worth : (r,) or None
        Variance of a row that a pivot may be expected to explain; infinite for one in use. None if it is time to look.
    idle : (r,) of bool, or None
    returned, observed : float
        Idle pivots that were in use at the next look, of so many. Before any was seen: one in ten, so that a pivot's
        past counts in full.
    left : float
        Variance of a recent row that no pivot explains, on average, at the last look; infinite before the first. Rows
        whose pivots were given up are unexplained for good, which is not what rows that come now leave.
    age : int
        Rows since the last look.
    patience : int
        How many times as long as usual to wait for the next look.
    """

    worth: np.ndarray | None = None
    idle: np.ndarray | None = None
    returned: float = 1.0
    observed: float = 10.0
    left: float = math.inf
    age: int = 0
    patience: int = 1

    def aged(self, rows: int, every: int) -> Self:
        """Return the same so many rows later, to be looked at again after `every` rows, or later."""
        age = self.age + rows
        return replace(self, age=age) if age < self.patience * every else replace(self, age=age, worth=None)

    def is_past(self, left: float) -> bool:
        """Return whether the last look is out of date for rows of which so much is left: the stream has moved on."""
        return self.worth is None or (self.age >= EARLY and left > MOVED * self.left)

    @property
    def least(self) -> float:
        """The least worth of a pivot; 0 where that must be looked at."""
        return float(self.worth.min()) if self.worth is not None and self.worth.size else 0.0

    def looked(self, features: Pivots, recent_rows: Rows, losses: Array) -> Self:
        """Look which pivots explain next to nothing of some rows; `losses` (r,) is what they explain of all rows."""
        past, recent = to_host(losses), _explained(features, recent_rows)
        idle = recent < IDLE * np.maximum(past, NOTHING * recent.mean())
        returned, observed = self.returned, self.observed
        if self.idle is not None and self.idle.size == idle.size:
            returned = FADING * returned + float((self.idle & ~idle).sum())
            observed = FADING * observed + float(self.idle.sum())
        share = min(1.0, HORIZON * returned / observed)
        worth = np.where(idle, np.maximum(share * past, recent), np.inf)
        return replace(
            self,
            worth=worth,
            idle=idle,
            returned=returned,
            observed=observed,
            left=_unexplained(features, recent_rows),
            age=0,
        )

    def in_vain(self) -> Self:
        """Return the same after a look that led to no exchange."""
        return replace(self, patience=min(2 * self.patience, RAREST))

    def with_other_pivots(self, features: Pivots, recent_rows: Rows) -> Self:
        """Return the same after pivots changed, with what is left of the recent rows now."""
        return self if math.isinf(self.left) else replace(self, left=_unexplained(features, recent_rows))

    def exchanged(self, pivots: Sequence[int]) -> Self:
        """Return the same after these pivots were replaced by rows that are in use."""
        if self.worth is None or self.idle is None:
            return self
        worth, idle, some = self.worth.copy(), self.idle.copy(), np.isfinite(self.worth).any()
        worth[list(pivots)], idle[list(pivots)] = np.inf, False
        used = some and not np.isfinite(worth).any()
        # Where the idle ones are used up the stream goes on, and others have become idle by now.
        return replace(self, worth=None if used else worth, idle=idle)


def _unexplained(features: Pivots, rows: Rows) -> float:
    """Return the mean unexplained variance of some rows; infinite for none."""
    if not rows.count:
        return math.inf
    left = features.unexplained(rows.X, rows.F)
    return max(float(namespace(left).sum(left)), 0.0) / rows.count


def _explained(features: Pivots, rows: Rows) -> np.ndarray:
    """Return what each pivot explains of a row on average, its own row included; (r,). O(W r²)."""
    xp, V = namespace(features.V), double(features.V)[:, features.n_trend :]
    along = product(double(rows.F), V)
    total = xp.sum(along * along * rows.weights[:, None], axis=0) / xp.vecdot(V, V, axis=-2)
    return np.asarray(to_host(total) / max(rows.count, 1))
