"""What the regressor asks of a model, and what it gets back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from .._arrays import Array, namespace
from ..kernels import Kernel
from ..statistics import NormalEquations, Posterior

T = TypeVar("T")


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
        last = self._last
        if last is None or not self.known(X):
            # A copy, since the caller may write its next rows into the same memory.
            last = self._last = (namespace(X).asarray(X, copy=True), compute(X))
        return last[1]

    def known(self, X: Array) -> bool:
        """Tell whether X is what was computed last."""
        last = self._last
        return last is not None and last[0].shape == X.shape and bool(namespace(X).all(last[0] == X))

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

    def observe(self, X: Array, y: Array) -> Self:
        """Learn the rows X (b, d) with targets y (b, q)."""

    def predict(self, X: Array, *, variance: bool, covariance: bool) -> Prediction:
        """Predict the function at the rows of X (m, d)."""

    def retuned(self, kernel: Kernel, noise: float) -> Self:
        """Go on with other hyperparameters, from rows where they are kept."""

    def log_evidence(self) -> float:
        """Log density of the targets learned, summed over outputs."""
