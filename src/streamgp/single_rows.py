"""Rows that come a few at a time: known at once to the next prediction, learned in groups beside the stream.

A learner that has learned a batch is a `base`. A row that comes alone is only conditioned on: its state and its quick
members follow it, which is all that the next prediction needs. The base learns GROUP such rows as one batch that was
answered row by row, in a thread, while the next group is gathered; it takes its place when that group is full, and is
waited for if it is late. So the rows at which anything changes do not depend on the speed of the machine, and what is
learned is the same without a thread.

A row that needs more than that is learned at once, with all that waits: one that was predicted far off, that no
inducing point explains, that lacks a feature or a label.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ._arrays import Array, is_foreign
from .beside import Task, task_of
from .checks import Batch
from .errors import NumericalError, UnlearnedRowsWarning
from .labels import missing
from .latent import LatentLearner
from .learner import Learner
from .methods import Prediction, predict_in_chunks
from .online.answered import Late
from .parameters import Settings
from .targets import TargetScaling
from .tuning.optimise import following_steps

# Rows that are learned together: a row's share of what is done once for them is small, while weights of members, noise
# and scores are at most two groups old.
GROUP = 20


@dataclass(frozen=True)
class Group:
    """Rows that came a few at a time, and what was said of them before, in the units of the targets."""

    batch: Batch
    said: Late

    @classmethod
    def joined(cls, parts: tuple[Group, ...], targets: TargetScaling) -> Group:
        """Return one group of several, of which what was said is in the units of these targets' model."""
        batch = Batch.joined([part.batch for part in parts])
        return cls(batch, Late.joined([part.said for part in parts]).unscaled(targets))


@dataclass(frozen=True)
class Ahead:
    """What a learner is ahead of its base.

    Attributes
    ----------
    base : Learner
        It has learned none of these rows.
    sent : Group or None
        Those that it learns now.
    parts : tuple of Group
        The rows since, each call apart; what was said of them is in standardised units.
    count : int
        How many these are.
    """

    base: Learner
    sent: Group | None = None
    parts: tuple[Group, ...] = ()
    count: int = 0

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # without the thread

    def followed_by(self, part: Group) -> Ahead:
        """Return this with the rows of one more call; the base goes on learning in its thread, or begins to."""
        after = replace(self, parts=(*self.parts, part), count=self.count + int(part.batch.X.shape[0]))
        if task_of(self) is not None:
            after.__dict__["task"] = self.__dict__["task"]
        elif self.sent is not None and self.base.settings.background:
            base, sent = self.base, self.sent

            def work(step: Any) -> Learner:
                with following_steps(step):
                    return base.update(sent.batch, sent.said)

            after.__dict__["task"] = Task(work, "streamgp-learning")
        return after

    def caught_up(self) -> Learner:
        """Return the base that has learned what was sent, waiting for its thread if it runs still."""
        if self.sent is None:
            return self.base
        running = task_of(self)
        try:
            found: Learner | None = None if running is None else running.found()
        except NumericalError as error:
            return _without(self.base, self.sent, error)
        return _learned(self.base, self.sent) if found is None else found

    def waiting(self) -> Group | None:
        """Return the rows since, together."""
        return Group.joined(self.parts, self.base.targets) if self.parts else None


def update(learner: Learner, batch: Batch, late: Late | None) -> Learner:
    """Return the learner that has learned a batch: a few ordinary rows are known at once, and learned in groups."""
    after = _further_ahead(learner, batch, late)
    if after is None:
        return settled(learner).update(batch, late)
    ahead = after.ahead
    if ahead is None or ahead.count < GROUP:
        return after
    base, group = ahead.caught_up(), ahead.waiting()
    assert group is not None
    known = _known(base, group.batch)
    if known is None:  # with the inducing points of now these rows need more
        return _learned(base, group)
    return replace(known, ahead=Ahead(base, group))


def settled(learner: Learner) -> Learner:
    """Return the learner that has learned all of its rows, and is ahead of nothing."""
    ahead = learner.ahead
    if ahead is None:
        return learner
    base, group = ahead.caught_up(), ahead.waiting()
    return base if group is None else _learned(base, group)


def _learned(base: Learner, group: Group) -> Learner:
    """Return the base that has learned a group; rows that it cannot learn, although it accepted them, are left out."""
    try:
        return base.update(group.batch, group.said)
    except NumericalError as error:
        return _without(base, group, error)


def with_settings(learner: Learner | LatentLearner, settings: Settings) -> Learner | LatentLearner:
    """Return the learner, and the base that it is ahead of, with other settings."""
    if isinstance(learner, LatentLearner) or learner.ahead is None:
        return replace(learner, settings=settings)
    base = replace(learner.ahead.base, settings=settings)
    return replace(learner, settings=settings, ahead=replace(learner.ahead, base=base))


def _without(base: Learner, group: Group, error: NumericalError) -> Learner:
    """Return the base without the rows of a group that it cannot learn; they are counted as refused."""
    n = int(group.batch.X.shape[0])
    warnings.warn(
        f"the last {n} rows were predicted, but not learned: {error}", UnlearnedRowsWarning, stacklevel=4
    )
    return replace(base, outliers=base.outliers.refusing_all(group.batch))


# Conditioning on a few rows


def _further_ahead(learner: Learner, batch: Batch, late: Late | None) -> Learner | None:
    """Return the learner that is ahead of its base by these rows, too; None where they need more than conditioning."""
    if not _is_ordinary(learner, batch):
        return None
    state, targets = learner.state, learner.targets
    found = predict_in_chunks(state, batch.X)
    if learner.outliers.is_surprised(batch, targets.apply(batch.y), found, state.noise):
        return None
    known = _known(learner, batch)
    if known is None:
        return None
    said = _said(learner, batch.X, found, late and late.standardised(targets))
    ahead = (learner.ahead or Ahead(learner)).followed_by(Group(batch, said))
    return replace(known, ahead=ahead)


def _is_ordinary(learner: Learner, batch: Batch) -> bool:
    """Return whether a batch is a few whole rows on the host, of a learner that need not look at each of them."""
    n, settings = batch.X.shape[0], learner.settings
    return (
        0 < n < GROUP
        and learner.first is None
        and learner.choice is None
        and not is_foreign(batch.X)
        and not batch.unlabelled
        and batch.lacking is None
        and missing(batch.y) is None
        and settings.tune in ("doubling", "none")
        and settings.guard in (None, "auto")
        and settings.rate(n)
        == 1.0  # otherwise rows of one group would be forgotten as if they were of one age
    )


def _known(learner: Learner, batch: Batch) -> Learner | None:
    """Return the learner whose predictions know the rows of a batch; None where the state has to look at them."""
    X, z, weights = batch.X, learner.targets.apply(batch.y), batch.weights
    state = learner.state.conditioned_on(X, z, weights)
    if state is None:
        return None
    return replace(
        learner,
        state=state,
        mixture=learner.mixture and learner.mixture.followed(X, z, weights),
        outliers=learner.outliers.with_none_refused(X.shape[0]),
        rows_seen=learner.rows_seen + X.shape[0],
    )


def _said(learner: Learner, X: Array, found: Prediction, late: Late | None) -> Late:
    """Return what was said of the rows X (b, d), in standardised units: by earlier models where they were asked."""
    b, variance = X.shape[0], np.maximum(np.asarray(found.variance), 0.0)
    members = np.empty((b, 2, 0, variance.shape[1]))
    if learner.mixture is not None:
        members = learner.mixture.predict(X, found, learner.state).table()
    noise = 0.0 * variance + learner.state.noise
    now = Late(np.ones(b, dtype=bool), found.mean, variance, noise, members, np.zeros(b))
    return now if late is None else late.or_else(now)
