"""Changes of the inducing points of a PivotState: admit, exchange, drop, re-factor. Each is exact for the window.

A row that is not in the window any more has no feature for a new pivot: zero is taken for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

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
    solve_lower,
    to_host,
    zeros,
)
from ..gp.features import Pivots, covariance_between, varying_part, without_trend
from ..gp.normal_equations import Dropped
from ..gp.outputs import per_output, typical
from ..gp.posterior import Posterior
from ..kernels import Kernel
from ..lowrank import Complement
from . import pivot_selection as selection
from .rows import Rows

if TYPE_CHECKING:
    from .pivot_state import PivotState

S = TypeVar("S", bound="PivotState")
# Rounding of features may grow to eps^(1 − PRECISION): 5e-7 in double precision.
PRECISION = 0.6


def _draw(state: S, left: Array, X: Array, n_most: int) -> tuple[list[int], Array]:
    prior, seed = double(without_trend(state.kernel).diag(X)), (state.config.seed, state.reviews)
    return selection.draw(left, prior, n_most, threshold(state), seed)


def threshold(state: PivotState) -> float:
    """Return the unexplained share of its prior variance above which a row can become a pivot."""
    prior, statistics = without_trend(state.kernel).prior_variance, state.fit.statistics
    if prior is None:
        prior = statistics.prior_trace / statistics.count if statistics.count > 0 else 0.0
    return max(
        state.config.policy.threshold(prior, state.least_noise, eps(state.features.Z)), state.least_novelty
    )


def _distinct(state: S, block: Rows, chosen: list[int]) -> tuple[S, list[int]]:
    """Leave out rows whose features would be lost to rounding; rows like them are not looked at again.

    A smooth kernel makes a chain of close pivots, such as times one after another, dependent to rounding although a
    sizeable share of each is unexplained when it comes.
    """
    if not chosen:
        return state, chosen
    rows, xp = block.at(chosen), namespace(block.X)
    left = selection.residual(state.kernel, rows.X, rows.F)
    L = cholesky(left, "the unexplained covariance of the new pivots")
    prior = double(varying_part(state.kernel).diag(rows.X))
    lost = state.features.precision_lost(rows.F, L, prior) > eps(state.features.Z) ** -PRECISION
    if not lost.any():
        return state, chosen
    share = to_host(xp.linalg.diagonal(left) / prior)
    floor = max(state.least_novelty, 2.0 * float(share[lost].min()))
    kept = [i for i, gone in zip(chosen, lost, strict=True) if not gone]
    return replace(state, least_novelty=floor), kept


def fill(state: S, block: Rows) -> S:
    """Fill free places with rows of the block, drawn by their unexplained variance."""
    left = selection.residual(state.kernel, block.X, block.F)
    chosen, columns = _draw(state, left, block.X, state.config.max_rank - state.features.rank)
    if state.config.tolerance is not None:
        most_left = state.config.tolerance * state.least_noise
        chosen = chosen[: selection.enough(left, columns, most_left)]
    state, chosen = _distinct(state, block, chosen)
    return admit(replace(state, reviews=state.reviews + 1), block, chosen)


def replace_weak(state: S, block: Rows, before: Posterior, moved: float) -> S:
    """Exchange weak pivots for rows of the block that explain clearly more of its other rows.

    Clearly more: `margin` times what a weak pivot explains of all other rows so far, weighted by what was learned along
    its direction. `moved` is how much worse the block is explained than the past on average; `before` is the
    posterior before the block, whose factor is known already.
    """
    policy, rank, device = state.config.policy, state.features.rank, is_foreign(state.features.Z)
    left = selection.residual(state.kernel, block.X, block.F)
    rows = policy.calm_review_every if device else state.unreviewed
    n_most = round(policy.candidates_per_review * rows / policy.review_every * moved)
    chosen, columns = _draw(state, left, block.X, min(n_most, rank))
    after = replace(state, reviews=state.reviews + 1, unreviewed=0)
    if not chosen or block.count < 2:
        return after
    # Computing losses is O(r³): only so often that a row's share of it is O(r²).
    if state.reviews % max(1, rank // policy.review_every) == 0 or state.losses.shape[0] != rank:
        after = replace(after, losses=selection.losses(state.fit.statistics, state.features))
    weights = selection.present_weights(before, *block.whitened(), moved > policy.moved)
    loss = to_host(after.losses) * selection.learned(state.features, weights)
    candidates, weak = selection.pairs(selection.gains(columns, chosen), loss, policy.margin)
    if not candidates.size:
        return after
    pivots = [int(j) for j in weak]
    after = exchange(after, pivots, [chosen[i] for i in candidates], block.count)
    return rebased(replace(after, idle=state.idle.exchanged(pivots)))


def take_novel(state: S, block: Rows) -> S:
    """Exchange idle pivots for rows of the newest block that are unexplained; O(W r² + m r²).

    Gains are what a row explains of its block, itself included, as a share of the recent rows; see `idle` for the worth
    of a pivot. Where all pivots are in use none is exchanged.
    """
    recent, idle = state.recent_rows, state.idle
    most = float(namespace(block.X).max(state.features.unexplained(block.X, block.F)))
    if idle.is_past(most) or idle.worth is None or idle.worth.size != state.features.rank:
        idle = idle.looked(state.features, recent, state.losses).in_vain()
    state = replace(state, idle=idle, reviews=state.reviews + 1)
    assert idle.worth is not None
    if not np.isfinite(idle.worth).any():
        return state
    left = selection.residual(state.kernel, block.X, block.F)
    chosen, columns = _draw(state, left, block.X, state.features.rank)
    state, newcomers = _distinct(state, block, chosen)
    gain = selection.gains_with_own(columns, recent.count)[[chosen.index(i) for i in newcomers]]
    candidates, weak = selection.pairs(gain, idle.worth, state.config.policy.margin)
    if not candidates.size:
        return state
    pivots, rows = [int(j) for j in weak], [newcomers[i] for i in candidates]
    after = exchange(state, pivots, rows, block.count, marginal=True)
    return rebased(replace(after, idle=replace(idle.exchanged(pivots), patience=1)))


def admit(state: S, block: Rows, chosen: list[int]) -> S:
    """Add rows of the block as pivots; every row of the window gets its features for them."""
    if not chosen:
        return state
    xp, window = namespace(block.X), state.window
    X = xp.take(block.X, index(chosen, block.X), axis=0)
    F = xp.take(block.F, index(chosen, block.F), axis=0)
    own = double(state.kernel.block(X)) - double(F) @ xp.matrix_transpose(double(F))
    L = cholesky(own, "the unexplained covariance of the new pivots")
    cross = double(state.kernel.block(window.X, X)) - double(window.F) @ xp.matrix_transpose(double(F))
    G = solve_lower(L, cross, rows=True)
    statistics = state.fit.statistics.extend(window.F, G, window.y, window.weights)
    fresh = selection.first_losses(G, L) / statistics.at_least_one
    return state.refitted(
        statistics,
        features=state.features.extend(X, F, cast(L, X.dtype)),
        window=replace(window, F=xp.concat([window.F, cast(G, window.F.dtype)], axis=1)),
        losses=xp.concat([state.losses, fresh]),
        changes=state.changes + len(chosen),
    )


def exchange(state: S, pivots: list[int], candidates: list[int], n: int, *, marginal: bool = False) -> S:
    """Replace pivots by rows of the last n of the window; every row of the window gets its features for them.

    `marginal`: rows that are gone keep what they say of the other pivots, no more; see NormalEquations.exchange.
    """
    xp, window, m = namespace(state.window.X), state.window, len(pivots)
    V = double(state.features.V)
    complement = Complement.of(xp.take(V, state.features.columns(pivots, V), axis=1))
    at = index([window.count - n + i for i in candidates], window.X)
    F = complement.turn(double(window.F))
    X, kept = xp.take(window.X, at, axis=0), xp.take(F, at, axis=0)[:, m:]
    own = double(state.kernel.block(X)) - kept @ xp.matrix_transpose(kept)
    L = cholesky(own, "the unexplained covariance of the new pivots")
    cross = less_product(double(state.kernel.block(window.X, X)), F[:, m:], xp.matrix_transpose(kept))
    gone = Dropped(xp.asarray(F[:, :m], copy=True), typical(state.fit.effective_noise)) if marginal else None
    F[:, :m] = solve_lower(L, cross, rows=True)
    statistics = state.fit.statistics.exchange(complement, F, window.y, window.weights, gone)
    losses = xp.asarray(state.losses, copy=True)
    fresh = selection.first_losses(F[:, :m], L) / statistics.at_least_one
    for i, pivot in enumerate(pivots):
        losses[pivot] = fresh[i]
    dtype = state.features.V.dtype
    narrow = Complement(cast(complement.Y, dtype), cast(complement.T, dtype))
    return state.refitted(
        statistics,
        features=state.features.exchange(pivots, narrow, X, cast(kept, dtype), cast(L, dtype)),
        window=replace(window, F=cast(F, window.F.dtype)),
        losses=losses,
        changes=state.changes + m,
    )


def dropped(state: S, pivots: list[int]) -> S:
    """Drop pivots, exactly."""
    features, complement = state.features.drop(pivots)
    kept = index([i for i in range(state.features.rank) if i not in set(pivots)], state.losses)
    wide = replace(complement, Y=double(complement.Y), T=double(complement.T))
    return state.refitted(
        state.fit.statistics.drop(wide),
        features=features,
        window=replace(state.window, F=complement.rows(state.window.F)),
        losses=namespace(state.losses).take(state.losses, kept),
    )


def rebased(state: S) -> S:
    """Compute V again after as many changes as there are pivots, so that their rounding does not add up."""
    # On a device at once: a triangle costs half as much to multiply with, and reviews are rare.
    if state.changes < state.features.rank and not is_foreign(state.features.Z):
        return state
    features = state.features.rebased()
    # φ_new = V_new cov(u, u) V_oldᵀ φ_old, a rotation.
    xp, V, window = namespace(features.V), double(features.V), state.window
    turn = product(
        double(state.features.V),
        product(double(features.gram), xp.matrix_transpose(V)),
    )
    return state.refitted(
        state.fit.statistics.transform(xp.matrix_transpose(turn)),
        features=features,
        window=replace(window, F=cast(product(double(window.F), turn), window.F.dtype)),
        changes=0,
    )


def merge_states(mine: S, theirs: S) -> S:
    """Return the state that has learned the rows of both, neither with rows pending; see PivotState.merge."""
    xp, Z = namespace(mine.features.Z), theirs.features.Z
    same = mine.features.Z.shape == Z.shape and bool(xp.all(mine.features.Z == Z))
    if not same:
        mine = _joined_by(mine, theirs.features)
    # φ_theirs = Tφ with T = V' cov(u', u) Vᵀ; rows of T are orthonormal, so Tᵀφ_theirs is the best guess at φ.
    between = double(covariance_between(mine.kernel, Z, mine.features.Z))
    T = double(theirs.features.V) @ between @ xp.matrix_transpose(double(mine.features.V))
    # New pivots learn from the rows of the window, which must therefore have their true features, here and in A.
    rows = replace(theirs.window, F=mine.features.transform(theirs.window.X))
    trace = float(xp.sum(double(mine.kernel.diag(rows.X)) * rows.weights)) if rows.count else 0.0
    past = theirs.fit.statistics.subtract(*theirs.window.weighted(), trace)
    statistics = past.transform(xp.matrix_transpose(T)).add(*rows.weighted(), trace)
    statistics = replace(statistics, count=theirs.fit.statistics.count)
    out = mine.refitted(mine.fit.statistics.merge(statistics), window=mine.window.join(rows))
    while out.features.rank > out.config.max_rank:
        loss = selection.losses(out.fit.statistics, out.features)
        weights = selection.learned(out.features, out.fit.weights)
        excess = min(out.features.rank - out.config.max_rank, 20)
        out = dropped(out, [int(j) for j in np.argsort(to_host(loss) * weights)[:excess]])
    losses = selection.losses(out.fit.statistics, out.features)
    return replace(out, losses=losses, faded=mine.faded or theirs.faded)


def _joined_by(state: S, others: Pivots) -> S:
    """Admit the pivots of another state, except those that the present ones explain."""
    others = replace(others, Z=cast(others.Z, state.features.Z.dtype))
    F = double(state.features.transform(others.Z))
    left = selection.residual(state.kernel, others.Z, F)
    chosen, _ = _draw(state, left, others.Z, others.rank)
    y = zeros((others.rank, state.window.y.shape[1]), state.window.y)
    return admit(state, Rows(others.Z, y, cast(F, others.Z.dtype), y[:, 0]), chosen)


def retuned(state: S, kernel: Kernel, noise: float | np.ndarray) -> S:
    """Return the state with another kernel, without rows pending; see PivotState.retuned."""
    gone = state.features.superfluous(kernel, threshold(state))
    if gone:
        state = dropped(state, gone)
    features, T = state.features.retuned(kernel)
    old, window, xp = state.fit.statistics, state.window, namespace(state.window.X)
    rows = replace(window, F=features.transform(window.X))
    diagonal, old_diagonal = (double(k.diag(window.X)) for k in (kernel, state.kernel))
    prior, before = (float(xp.sum(d * window.weights)) for d in (diagonal, old_diagonal))
    past = old.subtract(*window.weighted(), before)
    lost_before = max(past.trace_error, 0.0)
    past = past.transform(T)
    # The unexplained variance of rows that are gone: their old share, changed as that of the window is.
    left, left_before = (
        float(xp.sum(clip_below(d - xp.vecdot(double(f), double(f)), 0.0)))
        for d, f in ((diagonal, rows.F), (old_diagonal, window.F))
    )
    growth = float(xp.sum(diagonal)) / max(float(xp.sum(old_diagonal)), 1e-300) if window.count else 1.0
    lost = lost_before * left / left_before if left_before > 1e-12 * before else growth * lost_before
    lost = min(lost, 0.5 * growth * past.prior_trace)
    past = replace(past, prior_trace=max(past.prior_trace - past.trace_error, 0.0) + lost)
    statistics = replace(past.add(*rows.weighted(), prior), count=old.count)
    noise = per_output(noise, old.moment.shape[1])
    floor = None if state.noise_floor is None else noise
    after = replace(state, noise=noise, noise_floor=floor, least_novelty=0.0).refitted(
        statistics, features=features, window=rows, changes=0
    )
    return replace(after, losses=selection.losses(after.fit.statistics, after.features))
