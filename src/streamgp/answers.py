"""Answers: what a learner predicts, in the units and the shape of the targets."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from ._arrays import (
    Array,
    asarray_like,
    diagonal_matrix,
    double,
    eps,
    namespace,
    on_host,
    one_blas_thread,
    to_host,
)
from .checks import check_rows
from .errors import NegativeVarianceWarning, ParameterError
from .filling import Completed, completed, prior, refuse_gaps
from .learner import Learner
from .means import mean_at, mean_gradient_at
from .methods import Prediction, predict_in_chunks
from .methods.draws import Draw, Joined
from .online.answered import NEWEST, AnswerMemory, keys_of
from .online.calibration import Scores
from .online.said import Said
from .parameters import check_probability
from .targets import TargetScaling
from .transforms import TargetTransform


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
    expected : bool
        With transformed targets: the mean in the place of the median.
    """

    std: bool = False
    cov: bool = False
    interval: float | None = None
    latent: bool = False
    calibrated: bool = True
    expected: bool = False

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
    transform = learner.transform
    if transform is not None:
        if question.cov:
            raise ParameterError(
                "return_cov has no meaning for transformed targets; use sample_y, or return_std"
            )
        inner = replace(question, std=question.std or question.expected)
        reply = answer(replace(learner, transform=None), X, inner, memory, ids)
        return _in_units(transform, learner.targets, question, reply)
    keys = keys_of(X, ids, NEWEST) if memory is not None and on_host(X) else None
    rows = completed(learner, X, variance=question.n_arrays > 1)
    X = rows.X
    found, said = _predicted(learner, X, question), None
    # Covariances and the function itself are of the Gaussian process.
    if learner.mixture is not None and not question.cov and not question.latent:
        said = learner.mixture.predict(X, found, learner.state, rows.doubt)
    if rows.doubt is not None:
        found, said = _doubted(learner, rows, found, said, to_host(_noise(learner, question)))
    reply = _told(learner, rows, found, question, said)
    if memory is not None and keys is not None:
        told = (found.mean, found.variance, learner.state.noise)
        mean, variance, noise = learner.targets.unscaled(*told, NEWEST)
        members = None if said is None else learner.targets.unscaled_members(said.table()[NEWEST])
        memory.add(keys, mean, variance, noise, members, rows=learner.rows_seen)
    return reply


def _in_units(transform: TargetTransform, targets: TargetScaling, question: Question, reply: Any) -> Any:
    """Return a reply about transformed targets, with a std if `expected`, in the units of the targets."""
    parts = [to_host(v).astype(np.float64) for v in (reply if isinstance(reply, tuple) else (reply,))]
    tables = [v[:, None] if targets.one_dimensional else v for v in parts]
    told = [transform.undo(tables[0])]
    if question.std or question.expected:
        mean, std = transform.moments(tables[0], tables.pop(1))
        told = ([mean] if question.expected else told) + ([std] if question.std else [])
    told += [transform.undo(end) for end in tables[1:]]
    shaped = tuple((v[:, 0] if targets.one_dimensional else v).astype(targets.dtype) for v in told)
    return shaped if len(shaped) > 1 else shaped[0]


def _doubted(
    learner: Learner, rows: Completed, found: Prediction, said: Said | None, noise: np.ndarray
) -> tuple[Prediction, Said | None]:
    """Return predictions with the variance that missing features leave; the prior where all of them are missing.

    `noise` (1, q) is part of covariances.
    """
    doubt, empty = cast(np.ndarray, rows.doubt), cast(np.ndarray, rows.empty)[:, None]
    mean, variance = prior(learner, rows.X)
    # The function is as uncertain as a new target, but for the noise of that.
    function = np.maximum(variance - learner.state.noise, 0.0)
    whole = np.where(empty, function, 0.0 if found.variance is None else found.variance + doubt)
    covariances = found.covariance
    if covariances is not None:
        both, shift = empty | empty.T, whole - cast(Array, found.variance)
        covariances = tuple(
            np.where(both, 0.0, c) + np.diag(np.where(empty, whole + noise, shift)[:, j])
            for j, c in enumerate(covariances)
        )
    if said is not None:
        spread = np.where(empty, variance, said.variance)
        said = replace(said, mean=np.where(empty, mean, said.mean), variance=spread)
    known = None if found.variance is None else whole
    return Prediction(np.where(empty, mean, found.mean), known, covariances), said


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
    return replace(found, variance=_clipped(learner, X, found.variance))


def _told(learner: Learner, rows: Completed, found: Prediction, question: Question, said: Said | None) -> Any:
    """Return the answer in the units and the shape of the targets: of the mixture where it has `said` something."""
    targets = learner.targets
    center = found.mean if said is None else asarray_like(said.mean, found.mean)
    mean = _with_prior_mean(learner, rows.X, targets.undo_mean(center))
    if found.variance is None:
        return mean
    calibrated, scores = (
        question.calibrated and not question.latent,
        scores_of(learner, mixed=said is not None),
    )
    scale = _scale(learner, rows.X, center, scores) if calibrated else None
    honest = None
    if calibrated:
        known = None if scale is None else to_host(scale)
        honest = asarray_like(scores.local.honest(known, trusting=said is None), center)
        # What is known of errors is known of rows with features.
        honest = honest if rows.empty is None else np.where(rows.empty[:, None], 1.0, honest)
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
    unit = targets.undo_std(variance if scale is None else variance * scale**2)
    ends = interval_ends(learner, question.interval, calibrated=calibrated, mixed=said is not None)
    # Scores and deviations that are both huge reach past the range of numbers: then to its end.
    xp, largest = namespace(std), float(namespace(std).finfo(std.dtype).max)
    with np.errstate(over="ignore"):
        below, above = (targets.per_output(asarray_like(end, targets.scale)) * unit for end in ends)
        lower, upper = (xp.clip(end, -largest, largest) for end in (mean - below, mean + above))
    return (mean, std, lower, upper) if question.std else (mean, lower, upper)


def _with_prior_mean(learner: Learner, X: Array, values: Array) -> Array:
    """Return values at the rows X (m, d) with the prior mean, if there is one, added; in units of the targets."""
    function, targets = learner.settings.mean_function, learner.targets
    return values if function is None else values + targets.shaped(mean_at(function, X, targets.n_outputs))


@dataclass(frozen=True, eq=False)
class LearnedMean:
    """A model as it was, whose predictions are the prior mean of another."""

    learner: Learner

    def predict(self, X: Any) -> Array:
        """Return its mean at the rows X (m, d)."""
        return answer(self.learner, check_rows(X, self.learner.columns, self.learner.like), Question())

    def predict_gradient(self, X: Any) -> Array:
        """Return the derivatives of its mean by the features."""
        X = check_rows(X, self.learner.columns, self.learner.like)
        return gradient(self.learner, X, std=False, latent=False)


def as_learned(mean_function: Any) -> Any:
    """Return a prior mean that stays as it is: of a regressor, which may go on learning, what it knows now."""
    known = getattr(mean_function, "learner_", None)
    if isinstance(known, Learner):
        return LearnedMean(known)
    return copy.deepcopy(mean_function) if hasattr(mean_function, "predict") else mean_function


def gradient(learner: Learner, X: Array, *, std: bool, latent: bool) -> Any:
    """Return the derivatives of the mean at the rows X (m, d) by the features, and of the standard deviation if asked.

    Of the Gaussian process, in the units of features and targets.
    """
    state, targets = learner.state, learner.targets
    refuse_gaps(X, "derivatives are")
    found = state.gradient(X, variance=std)
    mean, function = targets.undo_gradient(found.mean), learner.settings.mean_function
    if function is not None:
        mean = mean + targets.shaped(mean_gradient_at(function, X, targets.n_outputs))
    if found.variance is None:
        return mean
    variance = _clipped(learner, X, state.predict(X).variance) + _noise(learner, Question(latent=latent))
    xp, root = namespace(variance), namespace(variance).sqrt(variance)
    # Where the function is known the deviation is zero and has no derivative.
    inverse = xp.where(root > 0, 0.5 / xp.where(root > 0, root, xp.ones_like(root)), 0.0 * root)
    return mean, targets.undo_gradient(found.variance * inverse[:, None, :])


@dataclass(frozen=True)
class SampledFunction:
    """One function drawn from the posterior; call it with rows X (m, d).

    Attributes
    ----------
    learner : Learner
        The model that it was drawn from; what is learned later does not change it.
    draw : Draw or Joined
    """

    learner: Learner
    draw: Draw | Joined

    def __call__(self, X: Any) -> Array:
        """Return the function at the rows of X (m, d), (m,) or (m, q), without noise; the same at every call."""
        learner = self.learner
        X = check_rows(X, learner.columns, learner.like, incomplete=learner.imputation is not None)
        refuse_gaps(X, "a draw is")
        with one_blas_thread(X):
            return _with_prior_mean(learner, X, learner.targets.undo_mean(self.draw(X)))


def sampled_function(learner: Learner, seed: int) -> SampledFunction:
    """Draw a function from the posterior of the Gaussian process."""
    return SampledFunction(learner, learner.state.draw(np.random.default_rng(seed)))


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
