"""Tuning of a learner: at once, or asked for, sought beside the stream and taken some rows later."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from . import following
from ._arrays import asarray_like, one_blas_thread
from .methods import State
from .online import calibration
from .tuning.background import Asked, rows_given
from .tuning.optimise import TAKEN, Tuned
from .tuning.reservoir import Reservoir
from .tuning.step import Change, tune_weights, with_tuned

if TYPE_CHECKING:
    from .learner import Learner

L = TypeVar("L", bound="Learner")


def wanted(learner: Learner, coming: int) -> bool:
    """Return whether the schedule wants a tuning, `coming` rows before they are learned."""
    rows = learner.state.count + coming
    return learner.schedule.is_due(learner.settings, learner.rows_seen, rows, learner.sample.keys.size)


def is_due(learner: Learner, coming: int, *, at_once: bool) -> bool:
    """Return whether hyperparameters change before `coming` rows are learned.

    `at_once`: a tuning that is wanted need not be sought beside the stream; nor need one of a stream that has left the
    level of its first rows, whose hyperparameters are of no use.
    """
    if not _beside(learner):
        return wanted(learner, coming)
    if learner.asked is not None:
        return learner.rows_seen >= learner.asked.due
    return wanted(learner, coming) and (at_once or following.is_off_centre(learner))


def _beside(learner: Learner) -> bool:
    """Return whether tunings are sought beside the stream: those that are rare, and on a sample."""
    return learner.settings.tune == "doubling" and learner.state.weight_statistics is None


def asked_for(learner: L) -> L:
    """Return the learner with a tuning asked for, where one is wanted and none is under way; its search begins."""
    first = learner.first
    if not _beside(learner) or (first is not None and first.estimating):
        return given_up(learner)
    if learner.asked is None and wanted(learner, 0):
        count, seen = learner.state.count, learner.rows_seen
        asked = _asked(learner, seen + rows_given(learner.sample.keys.size, count))
        learner = replace(learner, asked=asked, schedule=learner.schedule.asked(seen, count))
    if learner.asked is not None and learner.settings.background:
        learner.asked.keep_pace(learner.rows_seen)
    return learner


def given_up(learner: L) -> L:
    """Return the learner without the tuning that is under way, if any; the next batch asks for another."""
    if learner.asked is None:
        return learner
    return replace(learner, asked=None, schedule=learner.schedule.asked(0, 0.0))


def _asked(learner: Learner, due: int) -> Asked:
    state, settings = learner.state, learner.settings
    search = learner.schedule.search(settings)
    return Asked(
        state.kernel, state.noise, learner.sample, settings.objective, search, learner.rows_seen, due
    )


def tuned(learner: L, change: Change, coming: int, sample_before: Reservoir) -> L:
    """Return the learner with the hyperparameters that were asked for, or else found on its sample now.

    `coming` rows are learned next; `sample_before` is the sample without them, by which scores are rescaled.
    """
    began, schedule = time.perf_counter(), learner.schedule
    with one_blas_thread():  # a device's stream, too, is tuned on the host
        if learner.asked is None or learner.rows_seen < learner.asked.due:
            schedule = schedule.asked(learner.rows_seen, learner.state.count + coming)
            found = _asked(learner, learner.rows_seen).found()
        else:
            found = learner.asked.found()
        state, found = with_tuned(learner.state, found, change)
    learner = replace(learner, schedule=schedule, asked=None)
    return _changed(learner, state, found, sample_before, began)


def tuned_on_statistics(learner: L) -> L:
    """Return the learner with the weights of an affine kernel tuned on the state's statistics."""
    began, settings, schedule = time.perf_counter(), learner.settings, learner.schedule
    fix = settings.tune == "hybrid" and schedule.tunings + 1 >= settings.initial_batches
    search = schedule.search(settings)
    with one_blas_thread():
        state, found = tune_weights(learner.state, learner.sample, settings.objective, search, fix=fix)
    learner = replace(learner, schedule=schedule.asked(learner.rows_seen, learner.state.count))
    return _changed(learner, state, found, learner.sample, began)


def _changed(learner: L, state: State, found: Tuned, sample_before: Reservoir, began: float) -> L:
    """Return the learner with another state; targets, sample, mixture and scores follow it."""
    factors, scores, sample = found.factors, learner.scores, learner.sample
    targets, mixture = learner.targets, learner.mixture
    if factors is not None:
        targets, sample = targets.rescaled(factors), sample.rescaled(factors)
        mixture = mixture and mixture.rescaled(factors)
    if found.verdict == TAKEN and scores.count:
        X = asarray_like(sample_before.X, learner.like)
        y = asarray_like(sample_before.y, learner.targets.scale)
        weights = asarray_like(sample_before.weights, learner.targets.scale)
        old = learner.state.recent_left_out(X, y, weights)
        y = y if factors is None else y * asarray_like(factors, y)[None, :]
        new = state.recent_left_out(X, y, weights)
        scores = calibration.rescaled(scores, old, new, factors)
    schedule = learner.schedule.after(found, learner.rows_seen, time.perf_counter() - began)
    changed = replace(learner, state=state, schedule=schedule, scores=scores, targets=targets)
    return replace(changed, sample=sample, mixture=mixture)
