"""The contract of a method: an immutable State that predicts, and whose update returns the next one.

::

    State                     predict, update, retuned, left_out, …: what the learner asks of every method
    └── StatisticsState       states whose posterior comes from NormalEquations
        └── MergeableState    adds merge, unlearn, forget and summaries of rows learned elsewhere
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from .._arrays import Array, eps, index, joined, namespace, slices
from ..errors import InputError
from ..gp.features import Pivots
from ..gp.normal_equations import NormalEquations
from ..gp.posterior import LeftOut, Posterior
from ..kernels import Kernel
from ..row_weights import taken
from .draws import Draw, Drawable, Joined, by_pivots
from .gradients import Differentiable, Gradient, by_features
from .rows import Rows, moving
from .stored import Store

# Rows predicted together: bounds the memory that a large batch needs.
CHUNK = 2000
# Rows by which two states that keep every row are compared; enough for a median to 10 %.
RECENT = 200


@dataclass(frozen=True)
class Prediction:
    """Mean and spread of the function, noise not included; variances are as computed and may be negative.

    Attributes
    ----------
    mean : (m, q)
    variance : (m, q) or None
    covariance : (m, m) of each output, or None
        The same array for outputs that share it.
    features : (m, r) or None
    left : (m,) or None
        The prior variance that the features leave. `update` can use both again for the same rows.
    """

    mean: Array
    variance: Array | None = None
    covariance: tuple[Array, ...] | None = None
    features: Array | None = None
    left: Array | None = None

    @classmethod
    def by(
        cls,
        posterior: Posterior,
        F: Array,
        kernel: Kernel,
        X: Array,
        *,
        variance: bool,
        covariance: bool = False,
    ) -> Self:
        """Return the prediction of a posterior for the rows X (m, d) with features F (m, r)."""
        mean = posterior.mean(F)
        if covariance:
            return cls(mean, covariance=posterior.covariance(F, kernel.block(X)))
        return cls(mean, posterior.variance(F, kernel.diag(X)) if variance else None, features=F)


class State(Differentiable, Drawable, ABC):
    """What a method has learned: immutable, so an update returns the next state.

    Targets are (n, q), of a function of mean zero; inputs are checked before they come here. A subclass is a frozen
    dataclass; callers do not test its type and use only what is declared here.

    Attributes
    ----------
    kernel : Kernel
        Without white noise.
    noise : (q,)
        The noise variance of each output, on the host.
    noise_floor : (q,) or None
        Lower bound on the re-estimated noise: the last tuned value; None where it is not re-estimated.
    """

    kernel: Kernel
    noise: np.ndarray
    noise_floor: np.ndarray | None = None

    @property
    @abstractmethod
    def count(self) -> float:
        """The number of rows learned, less what was forgotten, whatever their weights."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """The number of features."""

    @property
    @abstractmethod
    def prior_trace(self) -> float:
        """Tr K over the rows learned, each times its weight."""

    @property
    @abstractmethod
    def trace_error(self) -> float:
        """tr(K − K̂) over the rows learned, each times its weight."""

    @abstractmethod
    def log_evidence(self) -> float:
        """Return the log density of the targets learned, summed over outputs."""

    @abstractmethod
    def predict(self, X: Array, *, variance: bool = True, covariance: bool = False) -> Prediction:
        """Predict the function at the rows of X (m, d): its mean, and its variance or covariance if asked for."""

    @abstractmethod
    def update(self, X: Array, y: Array, weights: Array | None = None) -> Self:
        """Learn the rows X (b, d) with targets y (b, q), of weights (b,), above zero; None for ones.

        The noise of a row of weight w is σ²/w.
        """

    @abstractmethod
    def retuned(self, kernel: Kernel, noise: float | np.ndarray) -> Self:
        """Return the state with other hyperparameters, from stored rows where they are kept; `noise` (q,) or one."""

    @abstractmethod
    def rescaled(self, factors: np.ndarray) -> Self:
        """Return the state that has learned the same rows with targets multiplied by `factors` (q,), exactly.

        Kernel and noise stay as they are: means are multiplied by the factors and variances stay. With targets that
        are scaled back by the inverse factors this changes the amplitude of each output, and no mean.
        """

    @abstractmethod
    def left_out(self, X: Array, y: Array, numbers: Array, weights: Array | None = None) -> LeftOut | None:
        """Predict learned rows, X (b, d) and y (b, q), each as if it had not been learned.

        `numbers` (b,) are their places among all rows learned, `weights` (b,) those that they were learned with. None
        where this method cannot compute it.
        """

    @abstractmethod
    def recent_left_out(self, X: Array, y: Array, weights: Array | None = None) -> LeftOut | None:
        """Predict the last rows that are kept, each as if it had not been learned.

        A method that keeps none takes X (m, d), y (m, q) and their weights (m,), a sample of the rows learned.
        """

    def corrected(self, X: Array, found: Prediction, store: Store) -> Prediction:
        """Return the prediction of the rows X (m, d) with what their neighbours in the store tell beside the state.

        `found` is the state's own, which is returned where neighbours tell nothing more.
        """
        return found

    def with_noise(self, estimate: np.ndarray, *, at_once: bool = False) -> State:
        """Return the state with a re-estimated noise (q,), where the method does that; `at_once`: not damped."""
        return self

    def adapted(
        self, horizon: int, rows: int, *, forget: bool, surprised: bool, lasting: Callable[[], float]
    ) -> State:
        """Return the state adapted to a stream of so many `rows` that is predicted `horizon` rows ahead.

        `forget`: it may give up some of the past. `surprised`: errors have suddenly grown. `lasting` returns over how
        many rows the errors of the stream are alike.
        """
        return self

    def moved(self, shift: np.ndarray) -> State | None:
        """Return the state of targets that are smaller by `shift` (q,); None where that cannot be done exactly."""
        return None

    def with_noise_correlation(self, correlation: Sequence[float]) -> State:
        """Return the state of a stream whose noise has these autocorrelations at the lags 1, 2, …; () for none."""
        return self

    @property
    def kept_share(self) -> tuple[float, int]:
        """The share of the past that the last adaptation kept, and the last rows that it kept whole."""
        return 1.0, 0

    @property
    def weight_statistics(self) -> tuple[NormalEquations, np.ndarray] | None:
        """Statistics for kernel weights of one and the number of the part of each feature (r,), to tune weights on.

        None where hyperparameters are tuned on a sample of rows.
        """
        return None

    def with_fixed_weights(self) -> State:
        """Return a state that will not be asked to tune weights any more, which may be cheaper."""
        return self


def predict_in_chunks(state: State, X: Array, *, variance: bool = True) -> Prediction:
    """Predict the rows of X (m, d), CHUNK of them at a time."""
    if X.shape[0] <= CHUNK:
        return state.predict(X, variance=variance)
    pieces = [state.predict(X[rows, :], variance=variance) for rows in slices(X.shape[0], CHUNK)]
    mean = joined([p.mean for p in pieces])
    return Prediction(mean, joined([p.variance for p in pieces]) if variance else None)


class StatisticsState(State):
    """A state whose posterior comes from NormalEquations."""

    @property
    @abstractmethod
    def posterior(self) -> Posterior:
        """The posterior given all rows learned."""

    @property
    def count(self) -> float:
        """See State."""
        return self.posterior.statistics.rows

    @property
    def rank(self) -> int:
        """See State."""
        return self.posterior.statistics.rank

    @property
    def prior_trace(self) -> float:
        """See State."""
        return self.posterior.statistics.prior_trace

    @property
    def trace_error(self) -> float:
        """See State."""
        return self.posterior.statistics.trace_error

    def log_evidence(self) -> float:
        """See State; of the low-rank approximation, not of the kernel matrix."""
        return self.posterior.log_evidence


@dataclass(frozen=True)
class Summary:
    """Statistics of rows under fixed inducing points, and tr(K − K̂) over them; summaries add up."""

    statistics: NormalEquations
    trace_error: float

    def merge(self, other: Summary) -> Summary:
        """Return the summary of the rows of both."""
        return Summary(self.statistics.merge(other.statistics), self.trace_error + other.trace_error)


class MergeableState(StatisticsState):
    """A state on inducing points (`features`): its statistics can be merged, subtracted and forgotten."""

    features: Pivots

    @property
    def kernel(self) -> Kernel:  # type: ignore[override]
        """The kernel of the features."""
        return self.features.kernel

    @property
    def rank(self) -> int:
        """See State; the number of inducing points."""
        return self.features.rank

    def gradient(self, X: Array, *, variance: bool = True) -> Gradient:
        """See State; O(m r d), O(m r (r + d)) with the variance."""
        F, chain = self.features.transform(X), self.features.input_gradient
        return by_features(self._predicting, F, self.kernel, X, chain, variance=variance)

    def draw(self, rng: np.random.Generator) -> Draw | Joined:
        """See State."""
        return by_pivots(self._predicting, self.features, rng)

    @property
    def _predicting(self) -> Posterior:
        """The posterior that predictions come from."""
        return self.posterior

    @abstractmethod
    def merge(self, other: Self) -> Self:
        """Return the state that has learned the rows of both."""

    @abstractmethod
    def unlearn(self, X: Array, y: Array, weights: Array | None = None, *, known: bool = False) -> Self:
        """Return the state without the rows X (b, d), y (b, q), learned with these weights (b,).

        `known`: the caller knows that they were learned.
        """

    @abstractmethod
    def forget(self, rate: float) -> Self:
        """Multiply the weight of all that was learned by `rate`."""

    @abstractmethod
    def summary(self, X: Array, y: Array, weights: Array | None = None) -> Summary:
        """Return the summary of rows under the present inducing points, without learning them."""

    @abstractmethod
    def with_summary(self, summary: Summary, X: Array, y: Array, weights: Array | None = None) -> Self:
        """Return the state that has learned the rows of a summary; X (m, d), y (m, q) are some, of these weights."""

    @property
    def last_rows(self) -> Rows | None:
        """The last rows learned, as far as they are kept; None where none is."""
        return None

    def recent_left_out(self, X: Array, y: Array, weights: Array | None = None) -> LeftOut | None:
        """See State; of the rows that are given, where none is kept. Their places are not needed."""
        return self.left_out(X, y, index([], X), weights)

    def total(self) -> Summary:
        """Return the summary of all rows learned."""
        return Summary(self.posterior.statistics, self.trace_error)

    def emptied(self) -> Self:
        """Return the state with the same inducing points that has learned nothing."""
        Z, n_outputs = self.features.Z, self.posterior.statistics.moment.shape[1]
        nothing = NormalEquations.empty(self.features.size, n_outputs, Z)
        return self.with_summary(Summary(nothing, 0.0), Z[:0, :], nothing.moment[:0, :])


def checked_or_repaired(
    after: NormalEquations, before: NormalEquations, trace_error: float, X: Array, *, known: bool = False
) -> NormalEquations:
    """Return the statistics `after` the rows X (b, d) were subtracted, if some set of rows can have them.

    Three necessary conditions, each to the rounding of the statistics `before`: the count and tr(K − K̂) are not
    negative, and the gram matrix of features and targets is positive semi-definite. Where one fails:

    - rows that are `known` to have been learned had other features then: the nearest possible statistics are returned;
    - other rows were never learned: InputError is raised.
    """
    rounding = max(1e-6, 1e4 * eps(X))  # of features in the precision of X
    repaired, distance = after.repaired(before)
    if after.count < -1e-6 or (
        not known and (distance > rounding or trace_error < -rounding * before.prior_trace)
    ):
        raise InputError(
            "some of these rows were not learned, or not with these values (rgp: not as one batch), or were already "
            "unlearned; unlearn each row once, as it was learned. The model is unchanged"
        )
    return repaired


def last_left_out(state: State, X: Array, y: Array, weights: Array | None = None) -> LeftOut | None:
    """Predict the last RECENT of all rows that a state has learned, X (n, d) and y (n, q), each left out in turn.

    Rows of a stuck sensor, whose inputs repeat, are skipped.
    """
    xp, n = namespace(X), X.shape[0]
    fresh = moving(X)[0] if n else None
    numbers = index(range(n), X) if fresh is None else fresh
    numbers = numbers[max(0, numbers.shape[0] - RECENT) :]
    X, y = (xp.take(values, numbers, axis=0) for values in (X, y))
    return state.left_out(X, y, numbers, taken(weights, numbers))
