"""Answers: what a learner predicts, in the units and the shape of the targets."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._arrays import Array, asarray_like, diagonal_matrix, double, eps, namespace, on_host
from .errors import NegativeVarianceWarning, ParameterError
from .learner import Learner
from .methods import Prediction, predict_in_chunks
from .online.answered import NEWEST, AnswerMemory, keys_of
from .online.calibration import Scores
from .online.mixture import Said
from .parameters import check_probability


@dataclass(frozen=True)
class Question:
    """What is asked beside the mean: `std`, `interval`, both, or `cov`.

    Attributes
    ----------
    std, cov : bool
    interval : float or None
        The probability of a central interval.
    latent : bool
        Leave the noise out.
    calibrated : bool
        Calibrate spread and interval, unless they are latent.
    """

    std: bool = False
    cov: bool = False
    interval: float | None = None
    latent: bool = False
    calibrated: bool = True

    def __post_init__(self) -> None:
        if self.cov and (self.interval is not None or self.std):
            raise ParameterError("ask for return_cov alone; it has the squared std on its diagonal")
        if self.interval is not None:
            check_probability("return_interval", self.interval)

    @property
    def n_arrays(self) -> int:
        """The number of arrays in the answer."""
        return 1 + bool(self.std) + bool(self.cov) + 2 * (self.interval is not None)


def answer(
    learner: Learner, X: Array, question: Question, memory: AnswerMemory | None = None, ids: Any = None
) -> Any:
    """Return the mean at the rows of X (m, d), then std, or cov, or lower and upper end, where asked for.

    What was answered is added to `memory`, under the ids (m,) of the rows where they are given.
    """
    keys = keys_of(X, ids, NEWEST) if memory is not None and on_host(X) else None
    found, said = _predicted(learner, X, question), None
    # Covariances and the function itself are of the Gaussian process.
    if learner.mixture is not None and not question.cov and not question.latent:
        said = learner.mixture.predict(X, found, learner.state.noise)
    reply = _told(learner, X, found, question, said)
    if memory is not None and keys is not None:
        told = (found.mean, found.variance, learner.state.noise)
        mean, variance, noise = learner.targets.unscaled(*told, NEWEST)
        members = None if said is None else learner.targets.unscaled_members(said.table()[NEWEST])
        memory.add(keys, mean, variance, noise, members, rows=learner.rows_seen)
    return reply


def _noise(learner: Learner, question: Question) -> Array:
    """Return the noises (1, q) to add to variances; zeros where the function alone is asked for."""
    noise = learner.state.noise
    return asarray_like(0.0 * noise if question.latent else noise, learner.targets.scale)[None, :]


def _predicted(learner: Learner, X: Array, question: Question) -> Prediction:
    """Return the prediction of the function, variances not below zero; covariances are with noise unless latent."""
    state = learner.state
    if question.cov:
        found, xp = state.predict(X, covariance=True), namespace(X)
        each = found.covariance or ()
        raw = xp.stack([xp.linalg.diagonal(covariance) for covariance in each], axis=1)
        variance = _clipped(learner, X, raw)
        shift = variance - raw + _noise(learner, question)
        covariances = tuple(c + diagonal_matrix(shift[:, j]) for j, c in enumerate(each))
        return Prediction(found.mean, variance, covariances)
    found = predict_in_chunks(state, X, variance=question.n_arrays > 1)
    if found.variance is None or question.n_arrays == 1:
        return Prediction(found.mean)
    return Prediction(found.mean, _clipped(learner, X, found.variance))


def _told(learner: Learner, X: Array, found: Prediction, question: Question, said: Said | None) -> Any:
    """Return the answer in the units and the shape of the targets: of the mixture where it has `said` something."""
    targets = learner.targets
    center = found.mean if said is None else asarray_like(said.mean, found.mean)
    mean = targets.undo_mean(center)
    if found.variance is None:
        return mean
    calibrated, scores = (
        question.calibrated and not question.latent,
        scores_of(learner, mixed=said is not None),
    )
    scale = _scale(learner, X, center, scores) if calibrated else None
    honest = None if scale is None else scale * asarray_like(scores.local.honest, scale)[None, :]
    if honest is not None and said is not None:
        trusted = asarray_like(scores.local.trusted, honest)
        honest = (1.0 - trusted + trusted * honest**2) ** 0.5
    if question.cov:
        each = found.covariance or ()
        if honest is not None:
            each = tuple(c * honest[:, j, None] * honest[None, :, j] for j, c in enumerate(each))
        return mean, targets.undo_covariance(each)
    variance = (
        found.variance + _noise(learner, question) if said is None else asarray_like(said.variance, center)
    )
    std = targets.undo_std(variance if honest is None else variance * honest**2)
    if question.interval is None:
        return mean, std
    unit = std if scale is None else targets.undo_std(variance * scale**2)
    ends = interval_ends(learner, question.interval, calibrated=calibrated, mixed=said is not None)
    # Scores and deviations that are both huge reach past the range of numbers: then to its end.
    xp, largest = namespace(std), float(namespace(std).finfo(std.dtype).max)
    with np.errstate(over="ignore"):
        below, above = (targets.per_output(asarray_like(end, targets.scale)) * unit for end in ends)
        lower, upper = (xp.clip(end, -largest, largest) for end in (mean - below, mean + above))
    return (mean, std, lower, upper) if question.std else (mean, lower, upper)


def scores_of(learner: Learner, *, mixed: bool) -> Scores:
    """Return the scores of the mixture, or of the Gaussian process."""
    return learner.mixture.scores if mixed and learner.mixture is not None else learner.scores


def interval_ends(
    learner: Learner, probability: float, *, calibrated: bool, mixed: bool = True
) -> np.ndarray:
    """Return how far below and above the mean an interval reaches, (2, q), in standard deviations times local scale.

    While there are too few rows to tune on, n of them, the Gaussian process's own intervals are those of Student's t
    with n − 1 degrees of freedom, because amplitude and noise are estimates.
    """
    estimating = learner.first is not None and learner.first.estimating
    freedom = max(learner.rows_seen - 1.0, 1.0) if estimating else math.inf
    scores, noise = scores_of(learner, mixed=mixed), learner.state.noise
    if scores is not learner.scores:
        noise = 0.0 * noise  # part of the variance of each member
    scores = scores if calibrated else scores.emptied()
    return scores.ends(probability, noise, freedom, learner.rows_seen)


def _scale(learner: Learner, X: Array, means: Array, scores: Scores) -> Array | None:
    """Return the local scale (m, q) at the rows X (m, d) with predicted means (m, q); None where it is 1 everywhere."""
    if not scores.local.chosen.any():
        return None
    found = scores.local.at(learner.state.kernel, X, means, scores.sizes)
    return None if found is None else asarray_like(found, means)


def draw_samples(
    rng: np.random.RandomState, mean: np.ndarray, covariance: np.ndarray, n_samples: int
) -> np.ndarray:
    """Return draws (m, n_samples) of the normal distribution of mean (m,) and covariance (m, m), singular or not.

    Of (m, q) and (m, m, q), one output after another: (m, q, n_samples).
    """
    if mean.ndim == 2:
        each = (draw_samples(rng, mean[:, j], covariance[:, :, j], n_samples) for j in range(mean.shape[1]))
        return np.stack(list(each), axis=1)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(mean[:, None] + root @ rng.standard_normal((mean.shape[0], n_samples)))


def _clipped(learner: Learner, X: Array, variance: Array) -> Array:
    """Return variances (m, q), negative ones set to zero; rows where that is not rounding are counted in a warning."""
    xp, state = namespace(variance), learner.state
    if not bool(xp.any(variance < 0)):
        return variance
    prior = float(xp.max(xp.abs(double(state.kernel.diag(X)))))
    prior = max(prior, state.prior_trace / max(state.count, 1.0))
    rounding = 10 * state.rank**0.5 * eps(X) * prior
    negative = int(xp.sum(xp.astype(xp.any(variance < -rounding, axis=1), xp.int64)))
    if negative:
        reasons = []
        if not state.kernel.positive_semidefinite:
            reasons.append(
                "the kernel is not positive semi-definite; BrownianPolynomial is its valid sibling"
            )
        if learner.settings.variant == "literal":
            reasons.append(
                "variant='literal' divides by the noise what the factor leaves out of the cross-covariance; raise "
                "rank or noise, or use 'projected'"
            )
        reason = ". And ".join(reasons) or f"rounding of {X.dtype}; raise the noise, or give float64 data"
        warnings.warn(
            f"{negative} of {variance.shape[0]} predicted variances were negative, the lowest "
            f"{float(xp.min(variance)):g}, and were set to zero: {reason}",
            NegativeVarianceWarning,
            stacklevel=5,
        )
    return xp.where(variance < 0, xp.zeros_like(variance), variance)
