"""Levels: a target that jumps by a constant and stays there moves the offset; what was learned of its shape is kept.

A Gaussian process that forgets nothing averages the levels before and after a jump, and one that forgets loses the
function with the level. Twenty rows whose errors are alike, and far beyond what the model of the rows before them
thought possible, are no accidents. They are a jump if the median error of the first half of them predicts the other
half far better than the model does that has learned the first half: where rows are near each other, such as those of an
arm that moves into a new place, it is the function that was not known. An output whose level jumps back is not followed
any more: what undoes a jump is a function of something.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from .._arrays import asarray_like, to_host
from ..gp.posterior import Conditioned, Posterior
from .adaptation import without
from .base import State
from .pivot_state import PivotState
from .rows import Rows

# The last rows that are looked at, and the fewest of them at a new level, if they are independent.
NEWEST, LEAST = 100, 20
# Errors lie beyond this many predicted standard deviations.
FAR = 4.0
# Share of the rows whose errors are within half a jump of it.
ALIKE = 0.8
# The squared error of a jump is at most this share of that of the model.
BETTER = 0.25
# A normal distribution's standard deviation over its median absolute deviation.
ROBUST = 1.4826


@dataclass(frozen=True)
class Jump:
    """A jump of the targets by `shift` (q,), 0 for outputs without one; the last rows (n, ·) are at the new level.

    `noise` (q,) is the noise that these rows show.
    """

    shift: np.ndarray
    rows: Rows
    noise: np.ndarray


def followed(state: State, lasting: float = 1.0) -> tuple[State, Jump | None]:
    """Return the state in which the last rows are learned without the jump of their level, if they show one.

    Errors of the stream are alike over `lasting` rows, in which nothing has jumped. O(r³) where they are looked at.
    Rows before the jump cannot be unlearned any more, as after forgetting.
    """
    if not isinstance(state, PivotState):
        return state, None
    folded = state.folded
    jump = _jump(folded.fit, folded.window, folded, math.ceil(LEAST * lasting))
    if jump is None:
        return state, None
    n, window, shift = jump.rows.count, folded.window, asarray_like(jump.shift, folded.window.y)
    moved = replace(jump.rows, y=jump.rows.y - shift[None, :])
    statistics = without(folded.fit.statistics, jump.rows)
    F, y = moved.weighted()
    statistics = statistics.add(F, y, float((F * F).sum()))
    statistics = replace(statistics, count=folded.fit.statistics.count)
    adaptation = replace(folded.adaptation, jumps=_remembered(folded.adaptation.jumps, jump.shift))
    window = window.between(0, window.count - n).join(moved)
    after = folded.refitted(statistics, window=window, faded=True, adaptation=adaptation)
    return after.with_noise(np.minimum(after.noise, jump.noise), at_once=True), jump


def _remembered(before: np.ndarray | None, shift: np.ndarray) -> np.ndarray:
    """Return the last jump of each output (q,), infinite where this one undoes at least half of it."""
    if before is None:
        return shift
    undone = (shift * np.where(np.isfinite(before), before, 0.0) < 0) & (
        np.abs(shift) >= 0.5 * np.abs(before)
    )
    return np.where(undone | np.isinf(before), np.inf, np.where(shift != 0, shift, before))


def _jump(fit: Posterior, window: Rows, state: PivotState, least: int) -> Jump | None:
    """Return the jump that the last rows of the window, at least so many, show; None where there is none."""
    recent = window.last(min(NEWEST, window.count // 2))
    if recent.count < least:
        return None
    past = replace(fit, statistics=without(fit.statistics, recent))
    error = to_host(recent.y) - to_host(past.mean(recent.F))
    variance = to_host(past.variance(recent.F, state.kernel.diag(recent.X))) + state.noise
    jumps = state.adaptation.jumps
    follows = np.ones(error.shape[1], dtype=bool) if jumps is None else np.isfinite(jumps)
    starts = [
        _start(e, s, least) if f else None
        for e, s, f in zip(error.T, np.sqrt(variance).T, follows, strict=True)
    ]
    known = [start for start in starts if start is not None]
    if not known:
        return None
    better = _predicts_better(past, recent.last(recent.count - min(known)), error[min(known) :])
    starts = [start if better[j] else None for j, start in enumerate(starts)]
    known = [start for start in starts if start is not None]
    if not known:
        return None
    rows = slice(min(known), None)
    middle = np.median(error[rows], axis=0)
    shift = np.where([start is not None for start in starts], middle, 0.0)
    spread = ROBUST * np.median(np.abs(error[rows] - middle), axis=0)
    return Jump(shift, recent.last(recent.count - min(known)), spread**2)


def _predicts_better(past: Posterior, rows: Rows, error: np.ndarray) -> np.ndarray:
    """Return for which outputs a jump predicts the second half of the rows from the first better than the model, (q,).

    `error` (n, q) is what the model of the past leaves of the rows.
    """
    half = rows.count // 2
    learned = Conditioned.on(past, *rows.between(0, half).whitened())
    left = to_host(rows.y)[half:] - to_host(learned.predict(rows.F[half:, :])[0])
    jumped = error[half:] - np.median(error[:half], axis=0)
    return np.asarray((jumped**2).mean(axis=0) < BETTER * (left**2).mean(axis=0))


def _start(error: np.ndarray, deviation: np.ndarray, least: int) -> int | None:
    """Return from which row on errors (n,), at least so many, are off by the same amount; None where they are not."""
    n = error.size
    middles = np.array([np.median(error[s:]) for s in range(n - least + 1)])
    costs = [np.abs(error[:s]).sum() + np.abs(error[s:] - m).sum() for s, m in enumerate(middles)]
    start = int(np.argmin(costs))
    after, shift = error[start:], abs(float(middles[start]))
    alike = np.mean(np.abs(after - middles[start]) <= 0.5 * shift)
    far = shift > FAR * float(np.median(deviation[start:]))
    return start if far and alike >= ALIKE else None
