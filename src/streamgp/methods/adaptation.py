"""Adaptation to a stream: how many rows tell as much as one independent row, and how much of the past still holds.

**Serial dependence.** On a plant what the inputs do not explain lasts for hours: the errors of neighbouring rows are
alike. A model that takes them for independent learns each disturbance as if it were the function. With rows that count
for 1/τ each, which is the noise τσ² in M = A + τσ²I, it does not; the noise of a new observation stays σ².

**Drift.** If the past says something else than the last rows, it is multiplied by κ < 1 (forgetting="auto").

τ is chosen by the errors of rows of the window that are held back, κ by those of rows that are predicted from the ones
before them (`held_back`); τ = κ = 1 unless another choice is clearly better.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from .._arrays import namespace
from ..gp.normal_equations import NormalEquations
from ..gp.posterior import Posterior
from .held_back import Looks, ahead, held_back
from .rows import Rows

# What τ and κ are chosen from: as close as a window of 500 rows can tell apart.
DEPENDENCES = (1.0, 10.0**0.5, 10.0, 10.0**1.5)
SHARES = (1.0, 0.5, 0.1, 0.01)
# Rows at the first look, which then doubles up to EVERY, or CALM where nothing was found: a look is about as costly as
# learning 300 rows.
FIRST, EVERY, CALM = 200, 2000, 5000
# Choices are looked at where the middle one, OF_ALL, does not make the log of the squared error higher by WORSE.
OF_ALL, WORSE = 2, 0.05
# Rows between looks where the errors have suddenly grown, and the last rows that are then looked at.
SUDDENLY, NEWEST = 50, 100
# The past is given up at once where that halves the squared error.
AT_ONCE = math.log(2.0)
# The fewest independent rows that can judge the past: where errors are alike over τ rows, n rows are n/τ of them. A
# disturbance that lasts as long as others did before is no reason to give up what was learned.
INDEPENDENT = 10.0


@dataclass(frozen=True)
class Adaptation:
    """What was chosen, and the looks by which it was.

    Attributes
    ----------
    dependence : float
        τ, 1 for independent rows.
    kept : float
        κ of the last look.
    dependences, shares : Looks
    looked_at, next_look : int
        The number of rows at the last look and at the next.
    n_recent : int
        The last rows by which κ was chosen: the past is what came before them.
    jumps : (q,) or None
        The last jump of the level of each output (`levels`), 0 for none; infinite where one was undone.
    """

    dependence: float = 1.0
    kept: float = 1.0
    dependences: Looks = field(default_factory=lambda: Looks.none(len(DEPENDENCES)))
    shares: Looks = field(default_factory=lambda: Looks.none(len(SHARES)))
    looked_at: int = 0
    next_look: int = FIRST
    n_recent: int = 0
    jumps: np.ndarray | None = None

    def is_due(self, rows: int, *, surprised: bool) -> bool:
        """Return whether to look, after so many rows; `surprised`: errors have suddenly grown."""
        return rows >= self.next_look or (surprised and rows >= max(FIRST, self.looked_at + SUDDENLY))

    def looked(
        self, fit: Posterior, window: Rows, horizon: int, rows: int, *, forget: bool, lasting: float = 1.0
    ) -> Self:
        """Look at the window, for predictions `horizon` rows ahead; O(W r² + r³) for each choice.

        A look that is early, because errors have suddenly grown, asks only whether the past still holds. Errors of the
        stream are alike over `lasting` rows.
        """
        early = rows < self.next_look
        after = replace(self, kept=1.0, looked_at=rows, n_recent=NEWEST if early else window.count)
        if not early:
            after = after._with_dependence(fit, window, horizon)
            calm = after.dependence == 1.0 and self.kept == 1.0
            after = replace(after, next_look=rows + min(max(rows, FIRST), CALM if calm else EVERY))
        # There must be as much of a past as there are rows that judge it.
        judged = forget and fit.statistics.count >= 2 * after.n_recent >= 2 * INDEPENDENT * lasting
        return after._with_share(fit, window.last(after.n_recent), horizon, lasting) if judged else after

    def _with_dependence(self, fit: Posterior, window: Rows, horizon: int) -> Self:
        change = _changes(
            lambda i: held_back(replace(fit, dependence=DEPENDENCES[i]), window, horizon),
            len(DEPENDENCES),
            all_of_them=self.dependence != 1.0,
        )
        if change is None:
            return self
        # What single rows gain, too, is no dependence: the noise is too low, which is not for this to mend.
        looks = self.dependences.add(change[:, 0] - np.minimum(change[:, 1], 0.0))
        return replace(self, dependences=looks, dependence=DEPENDENCES[looks.best()])

    def _with_share(self, fit: Posterior, window: Rows, horizon: int, lasting: float) -> Self:
        before = without(fit.statistics, window)

        def errors(i: int) -> tuple[float, ...] | None:
            found = ahead(Posterior(before.forget(SHARES[i]), fit.effective_noise), window, horizon)
            return None if found is None else (found,)

        found = _changes(errors, len(SHARES), all_of_them=self.kept != 1.0)
        if found is None:
            return self
        change = found[:, 0]
        if change.min() < -AT_ONCE:
            return replace(self, kept=SHARES[int(np.argmin(change))])
        if window.count <= NEWEST:
            return self
        looks = self.shares.add(change)
        return replace(self, shares=looks, kept=SHARES[looks.best(lasting)])


def _changes(
    errors: Callable[[int], tuple[float, ...] | None], n: int, *, all_of_them: bool
) -> np.ndarray | None:
    """Return the log ratios of the k errors of n choices to those of the first, (n, k); None where they tell nothing.

    Unless `all_of_them` are wanted, others count as the middle one where that is worse than the first.
    """
    first, middle = errors(0), errors(OF_ALL)
    if first is None or middle is None or not _telling(first) or not _telling(middle):
        return None
    change = np.repeat(np.log(np.array(middle) / np.array(first))[None, :], n, axis=0)
    change[0] = 0.0
    if change[OF_ALL, 0] > WORSE and not all_of_them:
        return change
    for i in range(1, n):
        found = middle if i == OF_ALL else errors(i)
        if found is None or not _telling(found):
            return None
        change[i] = np.log(np.array(found) / np.array(first))
    return change


def _telling(errors: tuple[float, ...]) -> bool:
    """Return whether errors are numbers above zero: rows that are predicted without error tell nothing."""
    return bool(np.isfinite(errors).all() and min(errors) > 0)


def faded(statistics: NormalEquations, recent: Rows, share: float) -> NormalEquations:
    """Return statistics in which rows before the recent ones count for `share` of what they did; O(W r²)."""
    if share == 1.0:
        return statistics
    past, (F, y) = without(statistics, recent).forget(share), recent.weighted()
    count = past.count + float(namespace(F).sum(recent.weights))
    return replace(past.add(F, y, float(namespace(F).sum(F * F))), count=count)


def without(statistics: NormalEquations, rows: Rows) -> NormalEquations:
    """Return statistics without some of their rows; O(W r²)."""
    F, y = rows.weighted()
    # The prior trace of these rows is that of their features: what they leave of it is negligible beside the past's.
    past = statistics.subtract(F, y, float(namespace(F).sum(F * F)))
    return replace(past, count=statistics.count - float(namespace(F).sum(rows.weights)))
