"""Classes as columns of labels, one for two of them and one for each of more; and classes that come later."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._arrays import slices
from ..likelihoods import Bernoulli, find_sites
from ..methods.sites import BATCH, SiteState
from ..tuning.start import MIN_ROWS
from .learner import LatentLearner, empty_states


def columns_of(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the columns of labels (n, 1) or (n, n_classes), zeros and ones, for the numbers of classes (n,).

    One class is the first of two.
    """
    if n_classes <= 2:
        return np.asarray(codes == 1, dtype=np.float64)[:, None]
    return np.asarray(codes[:, None] == np.arange(n_classes), dtype=np.float64)


def probabilities(
    learner: LatentLearner, mean: np.ndarray, variance: np.ndarray, n_classes: int
) -> np.ndarray:
    """Return the probabilities (m, n_classes) for mean and variance (m, q) of the latent functions.

    Of more than two classes a row is of exactly one: given that, class c has the probability pᶜ∏(1 − pᵏ) over k ≠ c,
    up to a constant, which is proportional to its odds pᶜ/(1 − pᶜ) against the rest.
    """
    each = [(_share(m, v), _share(-m, v)) for m, v in zip(mean.T, variance.T, strict=True)]
    if n_classes <= 2:
        ((second, first),) = each
        return np.stack([first, second], axis=1) if n_classes == 2 else np.ones((first.size, 1))
    odds = np.stack([np.log(of_it) - np.log(of_rest) for of_it, of_rest in each], axis=1)
    shares = np.exp(odds - odds.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _share(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the probability (m,) of a label one where f has this mean and variance, never zero."""
    return np.asarray(np.maximum(Bernoulli().observed(mean, variance).mean, np.finfo(np.float64).tiny))


def with_class(learner: LatentLearner, place: int, n_classes: int) -> LatentLearner:
    """Return the learner with one more class in that place, of which no row came so far; `n_classes` with it.

    All rows so far were not of it: it learns that from the sample, each of whose rows stands for as many as were seen.
    Of two classes, what is known of the second is known of the first with the sign turned.
    """
    # Hyperparameters of other classes: tuned again as soon as there are rows of this one.
    seen = learner.rows_seen
    schedule = replace(learner.schedule, known=0.0, tuned_at=seen, begun=seen - MIN_ROWS)
    learner = replace(learner, schedule=schedule)
    if n_classes <= 2:
        return learner if place == 1 or n_classes == 1 else _mirrored(learner)
    states, level, labels = list(learner.states), list(learner.model.level), learner.sample.y
    if n_classes == 3:
        other = _mirrored(learner)
        states, level = [other.states[0], states[0]], [other.model.level[0], level[0]]
        labels = np.concatenate([1.0 - labels, labels], axis=1)
    # As many rows as were seen and half a label, as for a share that is estimated from counts.
    level.insert(place, float(np.log(0.5 / (learner.rows_seen + 0.5))))
    labels = np.insert(labels, place, 0.0, axis=1)
    model = replace(learner.model, level=np.array(level), likelihoods=(Bernoulli(),) * n_classes)
    states.insert(place, _of_no_row(learner, float(model.level[place])))
    return replace(
        learner,
        model=model,
        states=tuple(states),
        sample=replace(learner.sample, y=labels),
        columns=replace(learner.columns, n_outputs=n_classes, one_dimensional=False),
        targets=replace(
            learner.targets, offset=np.zeros(n_classes), scale=np.ones(n_classes), one_dimensional=False
        ),
    )


def _mirrored(learner: LatentLearner) -> LatentLearner:
    """Return the learner of two classes that have changed places."""
    return replace(
        learner,
        model=replace(learner.model, level=-learner.model.level),
        states=tuple(state.rescaled(np.array([-1.0])) for state in learner.states),
        sample=replace(learner.sample, y=1.0 - learner.sample.y),
    )


def _of_no_row(learner: LatentLearner, level: float) -> SiteState:
    """Return the state of a class that no row of the sample is of."""
    (state, *_), sample = empty_states(learner.settings, learner.model, learner.like), learner.sample
    copies = max(learner.count / max(sample.keys.size, 1), 1.0)
    X = sample.X.astype(learner.like.dtype)
    for rows in slices(len(X), BATCH):
        state, prior = state.before(X[rows])
        n = len(prior.mean)
        found = find_sites(Bernoulli(), np.zeros(n), level + prior.mean, prior.covariance, np.full(n, copies))
        state = state.with_sites(prior, found.z - level, found.w)
    return state
