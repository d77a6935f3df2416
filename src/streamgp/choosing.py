"""The choice of target_transform="auto" is made again while the first rows double: a few in time order tell little."""

from __future__ import annotations

from dataclasses import replace

from ._arrays import one_blas_thread
from .checks import Batch
from .filling import aligned
from .learner import Learner, begin
from .online.choice import OpenChoice, looks
from .transforms import TargetTransform, chosen


def chosen_again(learner: Learner, batch: Batch) -> tuple[Learner, bool]:
    """Return a learner that knows the rows of an open choice, and whether it has learned them with another transform.

    Targets out of the range of a transform that was chosen make it choose at once. The learner that has begun again is
    that of all rows so far in one batch.
    """
    choice = learner.choice
    if choice is None:
        return learner, False
    rows, left = choice.followed_by(batch)
    wanted = learner.settings.target_transform
    suits = learner.transform is None or learner.transform.suits(batch.y)
    if suits and looks(rows.X.shape[0]) == looks(choice.X.shape[0]):
        return replace(learner, choice=left), False
    transform = chosen(wanted, rows.X, rows.y)
    if _names(transform) == _names(learner.transform):
        return replace(learner, choice=left), False
    with one_blas_thread(batch.X):
        return _begun_again(learner, rows, transform, left, batch.X.shape[0]), True


def _names(transform: TargetTransform | None) -> tuple[str, ...] | None:
    return None if transform is None else transform.names


def _begun_again(
    learner: Learner, rows: Batch, transform: TargetTransform | None, left: OpenChoice | None, n: int
) -> Learner:
    """Return the learner that has learned all rows so far, the last n of them now, under a transform."""
    rows = rows.transformed(transform)
    begun = aligned(begin(learner.settings, rows, learner.batches + 1), rows.empty)
    schedule, before = begun.schedule, learner.schedule
    return replace(
        begun,
        columns=learner.columns,
        transform=transform,
        choice=left,
        unlabelled=learner.unlabelled + rows.unlabelled,
        outliers=replace(begun.outliers, refused=begun.outliers.refused[-n:]),
        schedule=replace(
            schedule,
            tunings=before.tunings + schedule.tunings,
            seconds=before.seconds + schedule.seconds,
        ),
    )
