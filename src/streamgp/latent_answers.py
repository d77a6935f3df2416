"""What a learner under a likelihood predicts: observations in the user's units, or the latent function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtri

from ._arrays import slices, to_host
from .answers import Question, answer, draw_samples
from .errors import InputTypeError, ParameterError
from .latent import LatentLearner
from .learner import Learner
from .methods.base import CHUNK
from .online.answered import AnswerMemory


def reply(
    learner: Learner | LatentLearner, X: Any, question: Question, memory: AnswerMemory | None, ids: Any
) -> Any:
    """Return the mean at the rows of X (m, d), then std, or cov, or lower and upper end, where asked for."""
    if isinstance(learner, LatentLearner):
        return _told(learner, X, question)
    return answer(learner, X, question, memory, ids)


def latent_moments(learner: LatentLearner, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance (m, q) of the latent functions at the rows X (m, d), levels included."""
    if not isinstance(X, np.ndarray):
        raise InputTypeError(f"the model learned NumPy arrays, not those of {type(X).__module__}; convert X")
    parts = [[state.latent(X[rows]) for state in learner.states] for rows in slices(X.shape[0], CHUNK)]
    mean, variance = (
        np.concatenate([np.stack([each[k] for each in part], axis=1) for part in parts]) for k in (0, 1)
    )
    return mean + learner.model.level, variance


def _told(learner: LatentLearner, X: Any, question: Question) -> Any:
    targets = learner.targets
    mean, variance = latent_moments(learner, X)
    if question.cov:
        if not question.latent:
            raise ParameterError(
                f"return_cov=True with likelihood={learner.settings.likelihood!r} is of the latent function alone; ask "
                "with latent=True, or for return_std"
            )
        each = [state.predict(X, covariance=True).covariance or () for state in learner.states]
        return targets.undo_mean(mean), targets.undo_covariance([to_host(c[0]) for c in each])
    if question.latent:
        center, spread = mean, variance
    else:
        center, spread = _columns(
            learner, lambda j: learner.model.likelihoods[j].observed(mean[:, j], variance[:, j])
        )
    out = [targets.undo_mean(center)]
    if question.std:
        out.append(targets.undo_std(spread))
    if question.interval is not None:
        for end in (0.5 - 0.5 * question.interval, 0.5 + 0.5 * question.interval):
            if question.latent:
                ends = mean + ndtri(end) * np.sqrt(variance)
            else:
                (ends,) = _columns(
                    learner,
                    lambda j, end=end: (
                        learner.model.likelihoods[j].quantile(end, mean[:, j], variance[:, j]),
                    ),
                )
            out.append(targets.undo_mean(ends))
    return out[0] if len(out) == 1 else tuple(out)


def _columns(learner: LatentLearner, compute: Callable[..., tuple[np.ndarray, ...]]) -> list[np.ndarray]:
    """Return the arrays that are computed for each column of labels, (m, q) each."""
    each = [compute(j) for j in range(len(learner.states))]
    return [np.stack(columns, axis=1) for columns in zip(*each, strict=True)]


def samples(
    learner: LatentLearner, X: Any, n: int, rng: np.random.RandomState, *, latent: bool
) -> np.ndarray:
    """Return draws (m, n) or (m, q, n) of new observations, or of the latent function, at the rows X (m, d)."""
    mean, _ = latent_moments(learner, X)
    drawn = []
    for j, (state, likelihood) in enumerate(zip(learner.states, learner.model.likelihoods, strict=True)):
        (covariance,) = state.predict(X, covariance=True).covariance or ()
        f = draw_samples(rng, mean[:, j], to_host(covariance), n)
        drawn.append(f if latent else likelihood.draw(f, rng))
    values = np.stack(drawn, axis=1)  # (m, q, n)
    offset, scale = (to_host(v)[None, :, None] for v in (learner.targets.offset, learner.targets.scale))
    values = values * scale + offset
    return np.asarray(values[:, 0] if learner.targets.one_dimensional else values)
