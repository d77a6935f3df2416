"""What the regressor asks of a model, and what it gets back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from .._arrays import Array, eps, index, namespace
from ..errors import InputError
from ..gp.statistics import LeftOut, NormalEquations, Posterior
from ..kernels import Kernel
from .rows import moving

T = TypeVar("T")

# Rows, of models that keep all, by which two of them are compared.
RECENT = 200


@dataclass(frozen=True)
class Prediction:
    """Of the function, noise not included; variances are as computed and may be below zero.

    Attributes
    ----------
    mean : (m, q)
    variance : (m,) or None
    covariance : (m, m) or None
    """

    mean: Array
    variance: Array | None = None
    covariance: Array | None = None

    @classmethod
    def by(
        cls, posterior: Posterior, F: Array, kernel: Kernel, X: Array, *, variance: bool, covariance: bool
    ) -> Self:
        """Give what a posterior says of the rows X (m, d) with features F (m, r)."""
        mean = posterior.mean(F)
        if covariance:
            return cls(mean, covariance=posterior.covariance(F, kernel.block(X)))
        return cls(mean, posterior.variance(F, kernel.diag(X)) if variance else None)


@dataclass(frozen=True)
class Summary:
    """What rows say under fixed features, to be added up: their statistics, and tr(K − K̂) over them."""

    statistics: NormalEquations
    trace_error: float

    def merge(self, other: Summary) -> Summary:
        """Add the rows of another."""
        return Summary(self.statistics.merge(other.statistics), self.trace_error + other.trace_error)


def possible(
    after: NormalEquations, before: NormalEquations, trace_error: float, X: Array, *, known: bool = False
) -> NormalEquations:
    """Return the statistics `after` the rows X (b, d) were taken away, if any rows can have them.

    Three certificates, each to the rounding of what was there `before`: rows cannot be fewer than none, tr(K − K̂)
    cannot be negative, and the gram matrix of features and targets is positive semi-definite. Where one of them fails,
    rows that are `known` to have been learned had other features then, and the nearest statistics that are possible are
    returned; others were not learned, which raises InputError.
    """
    rounding = max(1e-6, 1e4 * eps(X))  # of features in the precision of X
    repaired, off = after.repaired(before)
    if after.count < -1e-6 or (
        not known and (off > rounding or trace_error < -rounding * before.prior_trace)
    ):
        raise InputError(
            "some of these rows were not learned, or not as they are now (rgp: as one batch), or were unlearned "
            "before: what is left cannot come from any rows. The model is unchanged"
        )
    return repaired


class Recent:
    """What was computed last, and for which rows: a stream learns the rows that it has just predicted.

    A cache and no part of a state: it is empty in a copy or a pickle, and any thread may fill it.
    """

    def __init__(self) -> None:
        self._last: tuple[Array, Any] | None = None

    def of(self, X: Array, compute: Callable[[Array], T]) -> T:
        """Give compute(X), or what it gave last if X has the same values; long batches are not kept."""
        if X.shape[0] > 512:
            return compute(X)
        last = self._last  # read once: another thread may put its own rows there at any time
        if last is None or last[0].shape != X.shape or not bool(namespace(X).all(last[0] == X)):
            # A copy, since the caller may write its next rows into the same memory.
            last = self._last = (namespace(X).asarray(X, copy=True), compute(X))
        return last[1]

    def __reduce__(self) -> tuple[type[Recent], tuple[()]]:
        return Recent, ()


class Model(Protocol):
    """An immutable state: `observe` returns the next one.

    Targets are (n, q) and of a function of mean zero; inputs are validated before they come here.
    """

    @property
    def kernel(self) -> Kernel:
        """The kernel, without white noise."""

    @property
    def noise(self) -> float:
        """The noise variance."""

    @property
    def count(self) -> float:
        """The number of rows learned, less what was forgotten."""

    @property
    def rank(self) -> int:
        """The number of features."""

    @property
    def prior_trace(self) -> float:
        """Tr K over the rows learned."""

    @property
    def largest_batch(self) -> int | None:
        """The most rows to observe at once where more would cost more than their share."""

    @property
    def trace_error(self) -> float:
        """tr(K − K̂) over the rows learned."""

    def observe(self, X: Array, y: Array) -> Model:
        """Learn the rows X (b, d) with targets y (b, q)."""

    def predict(self, X: Array, *, variance: bool, covariance: bool) -> Prediction:
        """Predict the function at the rows of X (m, d)."""

    def left_out(self, X: Array, y: Array, numbers: Array) -> LeftOut | None:
        """Predict learned rows, X (b, d) and y (b, q), each as if it had not been learned.

        `numbers` (b,) are their places among all rows learned. None where that cannot be told.
        """

    def recent_left_out(self) -> LeftOut | None:
        """Predict the last rows that are kept, RECENT or more, each as if it had not been learned."""

    def retuned(self, kernel: Kernel, noise: float) -> Self:
        """Go on with other hyperparameters, from rows where they are kept."""

    def log_evidence(self) -> float:
        """Log density of the targets learned, summed over outputs."""


def last_left_out(model: Model, X: Array, y: Array) -> LeftOut | None:
    """Predict the last RECENT of all rows that a model has learned, X (n, d) and y (n, q), each left out in turn.

    Rows whose inputs stood still are passed over.
    """
    xp, n = namespace(X), X.shape[0]
    fresh = moving(X)[0] if n else None
    numbers = index(range(n), X) if fresh is None else fresh
    numbers = numbers[max(0, numbers.shape[0] - RECENT) :]
    return model.left_out(xp.take(X, numbers, axis=0), xp.take(y, numbers, axis=0), numbers)
