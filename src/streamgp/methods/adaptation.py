"""Adaptation to a stream: how many rows tell as much as one independent row, and how much of the past still holds.

**Serial dependence.** On a plant what the inputs do not explain lasts for hours: the errors of neighbouring rows are
alike. A model that takes them for independent learns each disturbance as if it were the function. With rows that count
for 1/τ each, which is the noise τσ² in M = A + τσ²I, it does not; the noise of a new observation stays σ². Where tuning
finds noise with the autocorrelation ρ (`tuning.disturbances`), a coefficient of features with the autocorrelation c has
T = 1 + 2 Σ ρ(k) c(k) times the variance that independent noise would leave: inputs that change faster than the noise
tell as much as ever. τ = √T, unless errors of rows that are predicted ahead speak for 1 or T.

**Drift.** If the past says something else than the last rows, it is multiplied by κ < 1 (forgetting="auto").

τ and κ are chosen by the errors of rows of the window that are predicted from the ones before them (`ahead`); another
choice than the first is taken if it is clearly better.

Reference: Judge et al., The Theory and Practice of Econometrics (1985), section 8.2, for least squares under
autocorrelated noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from .._arrays import namespace
from ..gp.normal_equations import NormalEquations
from ..gp.posterior import Posterior
from ..kernels import Kernel
from ..row_weights import summed
from .ahead import SHORTEST, Looks, ahead
from .rows import Rows

# What the exponent of τ = T^exponent and κ are chosen from, the first unless another is clearly better.
EXPONENTS = (0.5, 0.0, 1.0)
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
INDEPENDENT = 20.0


@dataclass(frozen=True)
class Adaptation:
    """What was chosen, and the looks by which it was.

    Attributes
    ----------
    lasting : float
        T, by the last tuning; 1 for independent noise.
    exponent : float
        τ = T^exponent.
    kept : float
        κ of the last look.
    exponents, shares : Looks
    looked_at, next_look : int
        The number of rows at the last look and at the next.
    n_recent : int
        The last rows by which κ was chosen: the past is what came before them.
    jumps : (q,) or None
        The last jump of the level of each output (`levels`), 0 for none; infinite where one was undone.
    """

    lasting: float = 1.0
    exponent: float = EXPONENTS[0]
    kept: float = 1.0
    exponents: Looks = field(default_factory=lambda: Looks.none(len(EXPONENTS)))
    shares: Looks = field(default_factory=lambda: Looks.none(len(SHARES)))
    looked_at: int = 0
    next_look: int = FIRST
    n_recent: int = 0
    jumps: np.ndarray | None = None

    @property
    def dependence(self) -> float:
        """τ: so many rows tell as much as one independent row."""
        return float(self.lasting**self.exponent)

    def is_due(self, rows: int, *, surprised: bool) -> bool:
        """Return whether to look, after so many rows; `surprised`: errors have suddenly grown."""
        return rows >= (max(FIRST, self.looked_at + SUDDENLY) if surprised else self.next_look)

    def looked(
        self,
        fit: Posterior,
        window: Rows,
        horizon: int,
        rows: int,
        *,
        forget: bool,
        surprised: bool,
        lasting: float = 1.0,
    ) -> Self:
        """Look at the window, for predictions `horizon` rows ahead; O(W r² + r³) for each choice.

        A look that is early, because errors have suddenly grown, asks the newest rows only whether the past still
        holds; the next look of all rows waits until they are calm. Errors of the stream are alike over `lasting` rows.
        """
        judges = math.ceil(INDEPENDENT * lasting)
        # There must be as much of a past as there are rows that judge it.
        most = min(window.count, int(fit.statistics.rows / 2))
        n_recent = min(max(NEWEST, judges), most) if surprised else most
        after = replace(self, kept=1.0, looked_at=rows, n_recent=n_recent)
        if not surprised:
            past = fit.statistics.rows >= 2 * window.count
            after = after._with_exponent(fit, window, horizon) if self.lasting > 1 and past else after
            calm = after.dependence == 1.0 and self.kept == 1.0
            after = replace(after, next_look=rows + min(max(rows, FIRST), CALM if calm else EVERY))
        if not forget or n_recent < max(NEWEST, judges):
            return after
        few = n_recent < window.count
        return after._with_share(fit, window.last(n_recent), horizon, lasting, only_at_once=few)

    def _with_exponent(self, fit: Posterior, window: Rows, horizon: int) -> Self:
        before, noise = without(fit.statistics, window), fit.effective_noise / fit.dependence

        def error(i: int) -> float | None:
            return ahead(Posterior(before, noise * self.lasting ** EXPONENTS[i]), window, horizon)

        change = _changes(error, len(EXPONENTS), all_of_them=True)
        if change is None:
            return self
        looks = self.exponents.add(change)
        return replace(self, exponents=looks, exponent=EXPONENTS[looks.best()])

    def _with_share(
        self, fit: Posterior, window: Rows, horizon: int, lasting: float, *, only_at_once: bool
    ) -> Self:
        before = without(fit.statistics, window)

        def error(i: int) -> float | None:
            return ahead(Posterior(before.forget(SHARES[i]), fit.effective_noise), window, horizon)

        change = _changes(error, len(SHARES), all_of_them=self.kept != 1.0)
        if change is None:
            return self
        if change.min() < -AT_ONCE:
            return replace(self, kept=SHARES[int(np.argmin(change))])
        if only_at_once:
            return self
        looks = self.shares.add(change)
        return replace(self, shares=looks, kept=SHARES[looks.best(lasting)])


def lasting_rows(kernel: Kernel, X: np.ndarray, noise: Sequence[float]) -> float:
    """Return T for consecutive rows X (n, d) and the autocorrelations of the noise at the lags 1, 2 and so on.

    The autocorrelation of the features is that of the kernel, less what any two of the rows have in common.
    """
    n = X.shape[0]
    covariance = kernel.block(X)
    deviation = np.sqrt(np.diagonal(covariance))
    if n < SHORTEST or not (deviation > 0).all():
        return 1.0
    correlation = covariance / deviation[:, None] / deviation[None, :]
    common, total = float(correlation.mean()), 0.0
    for lag, alike in enumerate(noise[: n // 2], start=1):
        of_features = (float(np.diagonal(correlation, lag).mean()) - common) / max(1.0 - common, 1e-12)
        total += alike * max(of_features, 0.0)
    return 1.0 + 2.0 * total


def _changes(error: Callable[[int], float | None], n: int, *, all_of_them: bool) -> np.ndarray | None:
    """Return the log ratios of the errors of n choices to that of the first, (n,); None where they tell nothing.

    Unless `all_of_them` are wanted, others count as the middle one where that is worse than the first.
    """
    first, middle = error(0), error(OF_ALL)
    if first is None or middle is None or not first > 0 or not middle > 0:
        return None  # rows that are predicted without error tell nothing
    change = np.full(n, np.log(middle / first))
    change[0] = 0.0
    if change[OF_ALL] > WORSE and not all_of_them:
        return change
    for i in range(1, n):
        found = middle if i == OF_ALL else error(i)
        if found is None or not found > 0:
            return None
        change[i] = np.log(found / first)
    return change


def faded(statistics: NormalEquations, recent: Rows, share: float) -> NormalEquations:
    """Return statistics in which rows before the recent ones count for `share` of what they did; O(W r²)."""
    if share == 1.0:
        return statistics
    past, (F, y) = without(statistics, recent).forget(share), recent.weighted()
    xp = namespace(F)
    after = replace(past.add(F, y, float(xp.sum(F * F))), count=past.count + float(xp.sum(recent.weights)))
    if recent.given is None:
        return after
    # `without` and `add` leave these two as they are: what the recent rows have in them does not fade.
    left = recent.weights / recent.given
    surplus = (1.0 - share) * float(xp.sum(left - recent.weights))
    logs = (1.0 - share) * summed(xp.log(recent.given), left)
    return replace(after, surplus=after.surplus + surplus, log_whitening=after.log_whitening - logs)


def without(statistics: NormalEquations, rows: Rows) -> NormalEquations:
    """Return statistics without some of their rows; O(W r²)."""
    F, y = rows.weighted()
    # The prior trace of these rows is that of their features: what they leave of it is negligible beside the past's.
    past = statistics.subtract(F, y, float(namespace(F).sum(F * F)))
    return replace(past, count=statistics.count - float(namespace(F).sum(rows.weights)))
