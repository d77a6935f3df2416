"""`pivoted`: streaming randomly pivoted Cholesky, a state of O(rank²) whatever has passed.

The paper's future work, 'a combination of the proposed approach and RGP': features as Huber's, on pivots
that are chosen from the stream and change with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from .._arrays import (
    Array,
    cast,
    cholesky,
    clip_below,
    double,
    eps,
    index,
    is_foreign,
    less_product,
    namespace,
    product,
    slices,
    solve_lower_rows,
    to_host,
    zeros,
)
from ..errors import InputError
from ..gp.features import Pivots
from ..gp.statistics import Conditioned, LeftOut, NormalEquations, Posterior
from ..kernels import Kernel
from ..lowrank import Complement
from . import pivot_selection as choice
from .base import Prediction, Recent, Summary, possible
from .rows import Rows, moving, without

# Rows that are summed up at once.
SUMMED = 8192
# Rows after which pivots are reviewed, and after which rows that came a few at a time are folded in.
REVIEW = 100
# Rows that are remembered for new pivots to learn from. Bounds the state, as does the rank.
WINDOW = 500
# A row can become a pivot if the pivots leave more than this share of its prior variance unexplained.
NOVEL = 6e-5
# Or more than this share of the noise, where that is less.
NOISE_OF_NOVEL = 0.03
# A newcomer must explain this many times more of other rows than the pivot whose place it takes.
MARGIN = 10.0
# Newcomers looked at for every 100 rows when the stream stays where it is.
SWAPS = 10
# A block that is so many times worse explained than the past on average is reviewed at once.
MOVED = 1.2
# Rows between reviews when it is not.
LULL = 400
# Where arrays are another library's a review takes as long as many large batches: there is one every n/100
# batches of n rows, and a glance at whether the stream has moved every n/2000. Rows that are folded in at once there.
REVIEWED_ON_DEVICE = 100
GLANCED_ON_DEVICE = 2000
FOLDED = 16_384


@dataclass(frozen=True)
class PivotedModel:
    """A GP known through its values at pivots that are taken from the stream.

    Attributes
    ----------
    features : Pivots
    noise : float
    max_rank : int
    window_size : int or None
        Rows remembered for new pivots; None for all of them (`memory="rows"`).
    tolerance : float or None
        Take no more pivots than it needs to explain all but this share of the prior variance.
    least_noise : float or None
        The noise may follow the errors of predictions (`with_noise`), and not below this, which is what a tuning
        found if there was one; None to leave it as it was given.
    posterior : Posterior
        Of all rows that were folded in; holds the statistics.
    window : Rows
        The last rows that were folded in.
    pending : Rows
        Rows that were not folded in yet, fewer than REVIEW.
    conditioned : Conditioned or None
        The posterior given the pending rows too.
    losses : (r,)
        What each pivot explained of a row, its own aside, when that was last counted.
    mixed : bool
        Sum the products of float32 features in float32 before they are added in float64.
    faded : bool
        Whether anything was ever forgotten.
    """

    features: Pivots
    noise: float
    max_rank: int
    window_size: int | None
    tolerance: float | None
    least_noise: float | None
    seed: int
    posterior: Posterior
    window: Rows
    pending: Rows
    conditioned: Conditioned | None
    losses: Array
    mixed: bool = False
    faded: bool = False
    reviews: int = 0
    unreviewed: int = 0
    changes: int = 0
    recent: Recent = field(default_factory=Recent, compare=False)

    @classmethod
    def empty(
        cls,
        kernel: Kernel,
        noise: float,
        max_rank: int,
        window_size: int | None,
        tolerance: float | None,
        least_noise: float | None,
        seed: int,
        X: Array,
        y: Array,
        mixed: bool = False,
    ) -> Self:
        """Give the model that has learned nothing, beside X (·, d) and y (·, q)."""
        none = Rows(X[:0, :], double(y[:0, :]), zeros((0, 0), X), double(y[:0, 0]))
        posterior = NormalEquations.empty(0, y.shape[1], X).solve(noise)
        return cls(
            Pivots.none(kernel, X),
            noise,
            max_rank,
            window_size,
            tolerance,
            least_noise,
            seed,
            posterior,
            none,
            none,
            None,
            none.weights,
            mixed,
        )

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.features.kernel

    @property
    def rank(self) -> int:
        """The number of pivots."""
        return self.features.rank

    @property
    def count(self) -> float:
        """The number of rows learned, less what was forgotten."""
        return self.posterior.statistics.count + self.pending.count

    @property
    def prior_trace(self) -> float:
        """See Model."""
        return self.posterior.statistics.prior_trace + self.kernel.trace(self.pending.X)

    @property
    def largest_batch(self) -> int | None:
        """Five hundred: a review looks at all pairs of rows. Many more on a device, where each batch takes its time."""
        return FOLDED if self._on_device and self.rank == self.max_rank else 500

    @property
    def _on_device(self) -> bool:
        """Whether arrays are another library's, where a small step takes as long as a large one."""
        return is_foreign(self.features.Z)

    @property
    def trace_error(self) -> float:
        """See Model; exact."""
        return self._folded.posterior.statistics.trace_error

    def log_evidence(self) -> float:
        """See Model; of the pivots' features with the noise of the fit."""
        return self._folded.posterior.log_evidence

    @property
    def _folded(self) -> Self:
        # Not `self` from a cached property: a model that refers to itself is freed late, and its memory with it.
        return self._with_pending if self.pending.count else self

    @cached_property
    def _with_pending(self) -> Self:
        return self._fold(self.pending)

    # Predicting

    def predict(self, X: Array, *, variance: bool, covariance: bool) -> Prediction:
        """See Model. m·r kernel entries; O(m r²)."""
        if covariance:
            F, posterior = (
                self.features.transform(X),
                self._folded.posterior.statistics.solve(self.posterior.noise),
            )
            return Prediction.by(posterior, F, self.kernel, X, variance=variance, covariance=True)
        F = self._features_of(X)
        if self.conditioned is None:
            return Prediction.by(self.posterior, F, self.kernel, X, variance=variance, covariance=False)
        mean, leverage = self.conditioned.predict(F)
        left = self._unexplained(X, F) + self.posterior.noise * leverage
        return Prediction(mean, left if variance else None)

    def _features_of(self, X: Array) -> Array:
        return self.recent.of(X, self.features.transform)

    def _unexplained(self, X: Array, F: Array) -> Array:
        """Give k(x, x) − φᵀφ, shape (n,)."""
        F = double(F)
        return double(self.kernel.diag(X)) - namespace(F).vecdot(F, F)

    # Learning

    def observe(self, X: Array, y: Array) -> Self:
        """See Model. b·r + b² kernel entries, and WINDOW for each new pivot.

        Fewer than REVIEW rows wait, and only the posterior takes note of them, in O(b r²).
        """
        F = self._features_of(X)
        # A copy, since the caller may write its next rows into the same memory.
        kept = namespace(X).asarray(X, copy=True)
        rows = Rows(kept, double(y), F, double(namespace(y).ones_like(y[:, 0])))
        block = self.pending.join(rows) if self.pending.count else rows
        novel = self.rank < self.max_rank and self._is_novel(self._unexplained(X, F), self.kernel.diag(X))
        due = self.unreviewed + block.count >= LULL
        if block.count < REVIEW and not novel and not due and self.rank:
            given = self.conditioned
            given = Conditioned.on(self.posterior, F, y) if given is None else given.add(F, y)
            return replace(self, pending=block, conditioned=given, recent=Recent())
        return self._fold(block)._review(block.count, novel, self.posterior)._settled()

    def _is_novel(self, unexplained: Array, prior: Array) -> bool:
        """Tell whether rows of these variances (b,) ask for another pivot."""
        xp, prior = namespace(unexplained), double(prior)
        if not bool(xp.any(unexplained > self._novel * prior)):
            return False
        if self.tolerance is None:
            return True
        left, total = float(xp.sum(unexplained)), float(xp.sum(prior))
        if prior.shape[0] < REVIEW:
            # A few rows alone say little of the share: judge them with all that came before.
            left, total = left + self.posterior.statistics.trace_error, total + self.prior_trace
        return left > self.tolerance * total

    @property
    def _novel(self) -> float:
        """NOVEL, or less where the noise is a small share of the prior variance, but no less than rounding allows."""
        statistics = self.posterior.statistics
        prior = statistics.prior_trace / statistics.count if statistics.count > 0 else 0.0
        share = NOISE_OF_NOVEL * self.noise / prior if prior > 0 else NOVEL
        return max(min(NOVEL, share), 1e4 * eps(self.features.Z))

    def forget(self, rate: float) -> Self:
        """Weigh all that was learned by `rate`; O(r³)."""
        model = self._folded
        statistics = model.posterior.statistics.forget(rate)
        window = replace(model.window, weights=rate * model.window.weights)
        return replace(model, posterior=statistics.solve(self.noise), window=window, faded=True)._settled()

    def unlearn(self, X: Array, y: Array, *, known: bool = False) -> Self:
        """Take rows away: exactly those learned with the present pivots, or all if all rows are kept; O(b r² + r³).

        `known`: they are known to have been learned.
        """
        model = self._folded
        weights, gone, found = without(model.window, X, double(y))
        if not found and (self.window_size is None or self.faded):
            raise InputError(
                "some of these rows were not learned, or were taken away before; the model is unchanged"
                if self.window_size is None
                else f"after forgetting only the last {self.window_size} rows can be unlearned, for only they are "
                "known to count for how much; the model is unchanged"
            )
        F, xp = double(model.features.transform(X)), namespace(X)
        prior_trace = float(xp.sum(double(self.kernel.diag(X)) * gone))
        root = xp.sqrt(gone)[:, None]
        before = model.posterior.statistics
        statistics = before.unlearn(F * root, double(y) * root, prior_trace)
        statistics = replace(statistics, count=before.count - float(xp.sum(gone)))
        statistics = possible(statistics, before, statistics.trace_error, X, known=known)
        explained = statistics.prior_trace - statistics.trace_error
        statistics = replace(statistics, prior_trace=max(statistics.prior_trace, explained))
        window = replace(model.window, weights=weights)
        return replace(model, posterior=statistics.solve(self.noise), window=window)._settled()

    def merge(self, other: Self) -> Self:
        """Add what another machine has learned, O(r³); exactly, if its pivots are the same.

        Otherwise its pivots join, its statistics are written in the features of all, and pivots are dropped,
        the weakest first, until there are `max_rank` again.
        """
        mine, theirs = self._folded, other._folded
        xp = namespace(mine.features.Z)
        same = mine.features.Z.shape == theirs.features.Z.shape and bool(
            xp.all(mine.features.Z == theirs.features.Z)
        )
        if not same:
            mine = mine._joined_by(theirs.features)
        # φ_theirs = Tφ with T = V' k(Z', Z) Vᵀ; rows of T are orthonormal, so Tᵀφ_theirs is the best guess at φ.
        between = double(mine.kernel.block(theirs.features.Z, mine.features.Z))
        T = double(theirs.features.V) @ between @ xp.matrix_transpose(double(mine.features.V))
        # New pivots learn from the rows of the window, which must therefore have their true features, here and in A.
        rows = replace(theirs.window, F=mine.features.transform(theirs.window.X))
        trace = float(xp.sum(double(mine.kernel.diag(rows.X)) * rows.weights)) if rows.count else 0.0
        past = theirs.posterior.statistics.unlearn(*theirs.window.weighed(), trace)
        statistics = past.transform(xp.matrix_transpose(T)).learn(*rows.weighed(), trace)
        statistics = replace(statistics, count=theirs.posterior.statistics.count)
        merged = replace(
            mine,
            posterior=mine.posterior.statistics.merge(statistics).solve(self.noise),
            window=mine.window.join(rows),
        )
        while merged.rank > merged.max_rank:
            merged = merged._settled()
            losses = to_host(merged._losses()) * choice.learned(merged.features.V, merged.posterior.weights)
            excess = min(merged.rank - merged.max_rank, 20)
            merged = merged._dismiss([int(j) for j in np.argsort(losses)[:excess]])
        return replace(merged._settled(), losses=merged._losses())

    def retuned(self, kernel: Kernel, noise: float) -> Self:
        """Go on with another kernel; O(r³ + W r²), no row needed but those of the window.

        What was learned of the function's values at the pivots stays (`Pivots.retuned`; exact for a change of
        amplitude). Rows of the window are folded anew. Pivots that the new kernel makes superfluous are dropped
        first.
        """
        model, xp = self._folded, namespace(self.window.X)
        gone = model.features.superfluous(kernel, model._novel)
        if gone:
            model = model._dismiss(gone)
        features, T = model.features.retuned(kernel)
        old, window = model.posterior.statistics, model.window
        rows = replace(window, F=features.transform(window.X))
        F = rows.F
        diagonal, old_diagonal = (double(k.diag(window.X)) for k in (kernel, model.kernel))
        prior, before = (float(xp.sum(d * window.weights)) for d in (diagonal, old_diagonal))
        past = old.unlearn(*window.weighed(), before)
        explained_before = past.prior_trace - past.trace_error
        past = past.transform(T)
        # What the pivots leave of rows that are gone: the share that they left, changed as that of the window is.
        left, left_before = (
            float(xp.sum(clip_below(d - xp.vecdot(double(f), double(f)), 0.0)))
            for d, f in ((diagonal, F), (old_diagonal, window.F))
        )
        gone_trace, gone_error = past.prior_trace, max(past.prior_trace - explained_before, 0.0)
        growth = float(xp.sum(diagonal)) / max(float(xp.sum(old_diagonal)), 1e-300) if window.count else 1.0
        error = gone_error * left / left_before if left_before > 1e-12 * before else growth * gone_error
        error = min(error, 0.5 * growth * gone_trace)
        past = replace(past, prior_trace=max(past.prior_trace - past.trace_error, 0.0) + error)
        statistics = replace(past.learn(*rows.weighed(), prior), count=old.count)
        model = replace(
            model,
            features=features,
            noise=noise,
            least_noise=None if model.least_noise is None else noise,
            posterior=statistics.solve(noise),
            window=rows,
            changes=0,
        )._settled()
        return replace(model, losses=model._losses())

    # Rows that others have counted

    def blank(self) -> Self:
        """Give the same pivots with nothing learned."""
        none = self.window.last(0)
        return replace(
            self,
            posterior=NormalEquations.empty(self.rank, none.y.shape[1], none.X).solve(self.noise),
            window=none,
            pending=none,
            conditioned=None,
            faded=False,
            recent=Recent(),
        )

    def summary(self, X: Array, y: Array) -> Summary:
        """Sum up rows under the present pivots, without learning them; O(b r²)."""
        statistics = NormalEquations.empty(self.rank, y.shape[1], X)
        for part in slices(X.shape[0], SUMMED):
            rows = X[part, :]
            prior_trace = self.kernel.trace(rows)
            F = self.features.transform(rows)
            statistics = statistics.learn(F, y[part, :], prior_trace, mixed=self.mixed)
        return Summary(statistics, statistics.trace_error)

    def summary_of_all(self) -> Summary:
        """Sum up all rows that were learned."""
        statistics = self._folded.posterior.statistics
        return Summary(statistics, statistics.trace_error)

    def with_summary(self, summary: Summary, X: Array, y: Array) -> Self:
        """Know what a summary says; X (m, d) and y (m, q) are some of its rows, to be remembered for new pivots."""
        newest = max(0, X.shape[0] - WINDOW)
        X, y = X[newest:, :], y[newest:, :]
        rows = Rows(X, double(y), self.features.transform(X), double(namespace(y).ones_like(y[:, 0])))
        model = replace(self, posterior=summary.statistics.solve(self.noise), window=rows)._settled()
        return replace(model, losses=model._losses())

    def left_out(self, X: Array, y: Array, numbers: Array | None = None) -> LeftOut:
        """See Model."""
        F = self.features.transform(X)
        return self._folded.posterior.left_out(F, y, self.kernel.diag(X), self.noise)

    def recent_left_out(self) -> LeftOut:
        """See Model; of the window, but for rows that were unlearned or whose inputs stood still."""
        model, xp = self._folded, namespace(self.window.X)
        kept = to_host(model.window.weights) > 0
        fresh = moving(model.window.X)[0] if model.window.count else None
        if fresh is not None:
            kept &= np.isin(np.arange(kept.size), to_host(fresh))
        rows = model.window.at(np.flatnonzero(kept).tolist())
        prior = self.kernel.diag(rows.X) if rows.count else xp.zeros_like(rows.X[:, 0])
        return model.posterior.left_out(rows.F, rows.y, prior, self.noise, rows.weights)

    def _joined_by(self, others: Pivots) -> Self:
        """Admit the pivots of another model, but for those that mine explain."""
        others = replace(others, Z=cast(others.Z, self.features.Z.dtype))
        F = double(self.features.transform(others.Z))
        left = choice.residual(self.kernel, others.Z, F)
        chosen, _ = self._draw(left, others.Z, others.rank)
        y = zeros((others.rank, self.window.y.shape[1]), self.window.y)
        return self._admit(Rows(others.Z, y, cast(F, others.Z.dtype), y[:, 0]), chosen)

    def _fold(self, block: Rows) -> Self:
        """Add rows to the statistics and to the window."""
        prior_trace = self.kernel.trace(block.X)
        statistics = self.posterior.statistics.learn(block.F, block.y, prior_trace, mixed=self.mixed)
        window, newest = self.window, block
        if self.window_size is not None:
            window, newest = window.last(max(self.window_size - block.count, 0)), block.last(self.window_size)
        return replace(
            self,
            posterior=statistics.solve(self.noise),
            window=window.join(newest) if window.count else newest.copied(),
            pending=block.last(0),
            conditioned=None,
            unreviewed=self.unreviewed + block.count,
        )._settled()

    def _settled(self) -> Self:
        """Cut the window to its size, and fit with what the pivots do not see counted as noise.

        The statistics know nothing of K − K̂. Its mean diagonal, which the certificate gives exactly, takes
        its part in the likelihood; at full rank it is zero.
        """
        window = self.window if self.window_size is None else self.window.last(self.window_size)
        posterior = self.posterior.statistics.solve(self.noise, unseen=True)
        return replace(self, posterior=posterior, window=window, recent=Recent())

    def with_noise(self, estimate: float, *, at_once: bool = False) -> Self:
        """Take note of what predictions said of the noise: down by a factor of two at the most, up by ten.

        Unless `at_once`, by as much as it takes. Not below `least_noise`; nothing changes while rows wait, whose
        posterior hangs on the present noise.
        """
        if self.least_noise is None or self.pending.count:
            return self
        noise = max(estimate, self.least_noise)
        if not at_once:
            noise = min(max(noise, 0.5 * self.noise), 10.0 * self.noise)
        return replace(self, noise=noise)._settled()

    @property
    def _unseen(self) -> float:
        """The prior variance that the pivots leave unexplained of a row, on average over all rows learned."""
        statistics = self.posterior.statistics
        return max(statistics.trace_error, 0.0) / statistics.count if statistics.count > 0 else 0.0

    # Choosing pivots

    def _review(self, n_new: int, novel: bool, before: Posterior) -> Self:
        """Let rows of the newest block become pivots: into free places, or into those of weaker ones.

        `before` is the posterior before the block, whose factor is known already.
        """
        if self.rank < self.max_rank:
            return replace(self._fill(self.window.last(n_new)) if novel else self, unreviewed=0)
        lull, glance = LULL, 1
        if self._on_device:
            lull, glance = max(LULL, n_new**2 // REVIEWED_ON_DEVICE), max(1, n_new**2 // GLANCED_ON_DEVICE)
        if self.unreviewed // glance == (self.unreviewed - n_new) // glance:
            return self
        block = self.window.last(min(max(n_new, REVIEW), 500))
        unexplained = self._unexplained(block.X, block.F)
        mean = float(namespace(unexplained).sum(unexplained)) / block.count
        moved = mean / max(self._unseen, 1e-6 * mean) if mean > 0 else 1.0
        if self.unreviewed < (REVIEW if moved > MOVED else lull):
            return self
        return self._swap(block, before, min(max(moved, 1.0), 6.0))

    def _draw(self, left: Array, X: Array, n_most: int) -> tuple[list[int], Array]:
        prior = double(self.kernel.diag(X))
        return choice.draw(left, prior, n_most, self._novel, (self.seed, self.reviews))

    def _losses(self) -> Array:
        return choice.losses(self.posterior.statistics, self.features.V)

    def _fill(self, block: Rows) -> Self:
        residual = choice.residual(self.kernel, block.X, block.F)
        chosen, columns = self._draw(residual, block.X, self.max_rank - self.rank)
        if self.tolerance is not None:
            # Of the pivots drawn, in their order, only as many as explain enough of the block.
            prior = to_host(double(self.kernel.diag(block.X))).sum()
            left = np.trace(to_host(residual)) - np.cumsum((to_host(columns) ** 2).sum(axis=0))
            chosen = chosen[: 1 + int((left > self.tolerance * prior).sum())]
        return replace(self, reviews=self.reviews + 1)._admit(block, chosen)

    def _swap(self, block: Rows, before: Posterior, moved: float) -> Self:
        """Exchange weak pivots for rows of the block that explain clearly more of the other rows in it.

        Clearly more: MARGIN times what a weak pivot explains of all other rows so far, weighed by what was
        learned along its direction (a direction whose weight is small can go). `moved` is how much worse the
        block is explained than the past on average; so many times more newcomers are looked at.
        """
        n = block.count
        residual = choice.residual(self.kernel, block.X, block.F)
        n_most = round(SWAPS * (LULL if self._on_device else self.unreviewed) / REVIEW * moved)
        chosen, columns = self._draw(residual, block.X, min(n_most, self.rank))
        model = replace(self, reviews=self.reviews + 1, unreviewed=0)
        if not chosen or n < 2:
            return model
        gains = choice.gains(columns, chosen)
        # Counting is O(r³): only so often that a row's share of it is O(r²).
        if self.reviews % max(1, self.rank // REVIEW) == 0 or self.losses.shape[0] != self.rank:
            model = replace(model, losses=model._losses())
        # A stream that stays where it is knew its weights before the block, too.
        weights = Conditioned.on(before, block.F, block.y).weights if moved > MOVED else before.weights
        losses = to_host(model.losses) * choice.learned(self.features.V, weights)
        best, weakest = np.argsort(-gains), np.argsort(losses)[: len(chosen)]
        n_swaps = int(np.cumprod(gains[best] > MARGIN * losses[weakest]).sum())
        if not n_swaps:
            return model
        newcomers = [chosen[i] for i in best[:n_swaps]]
        return model._exchange([int(j) for j in weakest[:n_swaps]], newcomers, n)._rebased()

    def _exchange(self, pivots: list[int], newcomers: list[int], n: int) -> Self:
        """Drop pivots and put rows of the last n in their places; every row of the window learns them."""
        xp, window, m = namespace(self.window.X), self.window, len(pivots)
        complement = Complement.of(xp.take(double(self.features.V), index(pivots, self.features.V), axis=1))
        at = index([window.count - n + i for i in newcomers], window.X)
        F = complement.turn(double(window.F))
        X, kept = xp.take(window.X, at, axis=0), xp.take(F, at, axis=0)[:, m:]
        own = double(self.kernel.block(X)) - kept @ xp.matrix_transpose(kept)
        L = cholesky(own, "what the pivots leave of the new ones")
        cross = less_product(double(self.kernel.block(window.X, X)), F[:, m:], xp.matrix_transpose(kept))
        F[:, :m] = solve_lower_rows(L, cross)
        statistics = self.posterior.statistics.exchange(complement, F, window.y, window.weights)
        losses = xp.asarray(self.losses, copy=True)
        fresh = choice.first_losses(F[:, :m], L) / max(statistics.count, 1.0)
        for i, pivot in enumerate(pivots):
            losses[pivot] = fresh[i]
        dtype = self.features.V.dtype
        narrow = Complement(cast(complement.Y, dtype), cast(complement.T, dtype))
        return replace(
            self,
            features=self.features.exchange(pivots, narrow, X, cast(kept, dtype), cast(L, dtype)),
            posterior=statistics.solve(self.noise),
            window=replace(window, F=cast(F, window.F.dtype)),
            losses=losses,
            changes=self.changes + m,
        )

    def _dismiss(self, pivots: list[int]) -> Self:
        """Drop pivots, exactly."""
        features, complement = self.features.drop(pivots)
        xp, F = namespace(self.window.F), self.window.F
        kept = index([i for i in range(self.rank) if i not in set(pivots)], self.losses)
        wide = replace(complement, Y=double(complement.Y), T=double(complement.T))
        return replace(
            self,
            features=features,
            posterior=self.posterior.statistics.drop(wide).solve(self.noise),
            window=replace(self.window, F=complement.rows(F)),
            losses=xp.take(self.losses, kept),
        )

    def _admit(self, block: Rows, chosen: list[int]) -> Self:
        """Make rows of the block pivots; every row of the window learns its features for them."""
        if not chosen:
            return self
        xp, window = namespace(block.X), self.window
        X = xp.take(block.X, index(chosen, block.X), axis=0)
        F = xp.take(block.F, index(chosen, block.F), axis=0)
        own = double(self.kernel.block(X)) - double(F) @ xp.matrix_transpose(double(F))
        L = cholesky(own, "what the pivots leave of the new ones")
        cross = double(self.kernel.block(window.X, X)) - double(window.F) @ xp.matrix_transpose(double(F))
        G = solve_lower_rows(L, cross)
        statistics = self.posterior.statistics.extend(window.F, G, window.y, window.weights)
        fresh = choice.first_losses(G, L) / max(statistics.count, 1.0)
        return replace(
            self,
            features=self.features.extend(X, F, cast(L, X.dtype)),
            posterior=statistics.solve(self.noise),
            window=replace(window, F=xp.concat([window.F, cast(G, window.F.dtype)], axis=1)),
            losses=xp.concat([self.losses, fresh]),
            changes=self.changes + len(chosen),
        )

    def _rebased(self) -> Self:
        """Compute V anew after as many changes as there are pivots, so that their rounding does not add up."""
        # On a device at once: a triangle costs half as much to multiply with, and reviews are rare.
        if self.changes < self.rank and not self._on_device:
            return self
        features = self.features.rebased()
        # φ_new = V_new k = V_new k(Z, Z) V_oldᵀ φ_old, a rotation.
        xp, V = namespace(features.V), double(features.V)
        turn = product(
            double(self.features.V),
            product(double(self.kernel.block(features.Z)), xp.matrix_transpose(V)),
        )
        statistics = self.posterior.statistics.transform(xp.matrix_transpose(turn))
        window = replace(self.window, F=cast(product(double(self.window.F), turn), self.window.F.dtype))
        return replace(
            self, features=features, posterior=statistics.solve(self.noise), window=window, changes=0
        )
