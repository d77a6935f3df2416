"""`rgp` before its basis is complete: the exact Gaussian process of the first rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from .._arrays import Array, cast, slices
from ..kernels import Kernel
from ..statistics import LeftOut
from .base import Prediction
from .exact import ExactModel
from .recursive import RecursiveModel


@dataclass(frozen=True)
class GatheringModel:
    """Rows are gathered until there are enough for a basis; a basis of all of them would be the exact GP as well.

    Attributes
    ----------
    exact : ExactModel
        Of all rows so far, fewer than `max_rank`; a row costs O(max_rank²).
    like : (0, d)
        Lives where the data does, in its dtype.
    """

    exact: ExactModel
    max_rank: int
    seed: int
    like: Array

    @classmethod
    def empty(cls, kernel: Kernel, noise: float, max_rank: int, seed: int, X: Array, y: Array) -> Self:
        """Return the model that has learned nothing, beside X (·, d) and y (·, q)."""
        return cls(ExactModel.empty(kernel, noise, False, X, y), max_rank, seed, X[:0, :])

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.exact.kernel

    @property
    def noise(self) -> float:
        """The noise variance."""
        return self.exact.noise

    @property
    def count(self) -> float:
        """The number of rows learned."""
        return self.exact.count

    @property
    def rank(self) -> int:
        """The number of rows learned."""
        return self.exact.rank

    @property
    def prior_trace(self) -> float:
        """See Model."""
        return self.exact.prior_trace

    @property
    def trace_error(self) -> float:
        """Zero: nothing is approximated."""
        return 0.0

    @property
    def largest_batch(self) -> int | None:
        """See RecursiveModel."""
        return 2000

    @property
    def pivots(self) -> Array:
        """The rows gathered so far, (n, d)."""
        return cast(self.exact.X, self.like.dtype)

    def observe(self, X: Array, y: Array) -> GatheringModel | RecursiveModel:
        """See Model. With `max_rank` rows or more, return the model of a basis drawn from all of them."""
        exact = self.exact.observe(X, y)
        gathered = replace(self, exact=exact)
        if exact.count < self.max_rank:
            return gathered
        rows = gathered.pivots
        model = RecursiveModel.empty(self.kernel, self.noise, self.max_rank, rows, exact.y, (self.seed, 0))
        for part in slices(rows.shape[0], model.largest_batch or rows.shape[0]):
            model = model.observe(rows[part, :], exact.y[part, :])
        return model

    def predict(self, X: Array, *, variance: bool, covariance: bool) -> Prediction:
        """See Model."""
        return self.exact.predict(X, variance=variance, covariance=covariance)

    def left_out(self, X: Array, y: Array, numbers: Array) -> LeftOut | None:
        """See Model."""
        return self.exact.left_out(X, y, numbers)

    def recent_left_out(self) -> LeftOut | None:
        """See Model."""
        return self.exact.recent_left_out()

    def retuned(self, kernel: Kernel, noise: float) -> Self:
        """See Model."""
        return replace(self, exact=self.exact.retuned(kernel, noise))

    def log_evidence(self) -> float:
        """See Model."""
        return self.exact.log_evidence()
