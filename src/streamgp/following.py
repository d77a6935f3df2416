"""Following a stream: drift and dependence, a level that jumps, and one that is far from where the stream began."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from .methods import State, levels
from .online.members import Known
from .tuning.families import families_of, off_centre

if TYPE_CHECKING:
    from .learner import Learner

L = TypeVar("L", bound="Learner")
# Rows between looks whether errors are far larger than they were.
LOOK_EVERY = 20


def adapted(learner: L, state: State, n: int, lag: int) -> L:
    """Return the learner with a state that is adapted to the stream, where neither kernel nor noise was given.

    N rows were learned, and predicted n + `lag` rows ahead.
    """
    settings, rows, scores = learner.settings, learner.rows_seen, learner.scores
    if not (families_of(settings.kernel) and settings.noise == "auto"):
        return replace(learner, state=state)
    forget = settings.forgetting == "auto" and settings.memory_rows is None
    surprised = _looks(rows, n) and scores.suddenly_large
    if surprised and forget:
        state, jump = levels.followed(state, scores.lasting)
        if jump is not None:
            return _at_new_level(learner, state, jump)
    after = state.adapted(n + lag, rows, forget=forget, surprised=surprised, lasting=lambda: scores.lasting)
    kept, recent = after.kept_share
    if after is state or kept == 1.0:
        return replace(learner, state=after)
    sample, schedule = learner.sample.faded(kept, recent), learner.schedule.faded(kept, rows)
    mixture = learner.mixture and learner.mixture.forgotten(kept)
    return replace(learner, state=after, sample=sample, schedule=schedule, mixture=mixture)


def has_changed(before: Learner, after: Learner) -> bool:
    """Return whether errors have become far larger than they were, from one batch to the next."""
    if not _looks(after.rows_seen, after.rows_seen - before.rows_seen):
        return False
    return after.scores.suddenly_large and not before.scores.suddenly_large


def _looks(rows: int, n: int) -> bool:
    """Return whether the last n of so many rows are followed by a look."""
    return rows // LOOK_EVERY > (rows - n) // LOOK_EVERY


def _at_new_level(learner: L, state: State, jump: levels.Jump) -> L:
    """Return the learner with a state that has followed a jump of the targets."""
    rows = jump.rows
    return replace(
        learner,
        state=state,
        targets=learner.targets.moved(jump.shift),
        sample=learner.sample.without(rows.X, rows.y),
        scores=learner.scores.without_last(rows.count),
        mixture=learner.mixture and learner.mixture.jumped(jump.shift, Known(rows.X, rows.y, rows.given)),
    )


def is_off_centre(learner: Learner) -> bool:
    """Return whether the first rows were at another level than the sample."""
    return families_of(learner.settings.kernel) != () and bool(off_centre(learner.sample.y).any())


def centred(learner: L) -> L:
    """Return the learner with targets about zero, where the first rows were at another level than the sample."""
    if not is_off_centre(learner):
        return learner
    shift = off_centre(learner.sample.y)
    state = learner.state.moved(shift)
    if state is None:
        return learner
    scores = replace(learner.scores, local=learner.scores.local.moved(shift))
    targets, sample = learner.targets.moved(shift), learner.sample.moved(shift)
    mixture = learner.mixture and learner.mixture.moved(shift)
    return replace(learner, state=state, sample=sample, scores=scores, targets=targets, mixture=mixture)
