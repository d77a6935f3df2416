"""NormalEquations: the sufficient statistics of a linear model in its features, of a size free of n.

With features Φ (n, r), signature J = diag(±1) and K ≈ ΦJΦᵀ:

==========  ===========================  ======
letter      what                         shape
==========  ===========================  ======
A           gram, ΦᵀΦ                    (r, r)
c           moment, Φᵀy                  (r, q)
s           energy, yᵀy                  (q, q)
n           count                        ()
κ           prior trace, Σ k(xᵢ, xᵢ)     ()
==========  ===========================  ======

Rows of weight w, whose noise is σ²/w, count w times: A = ΦᵀWΦ, and so on.
Kept in float64 whatever the features are computed in: A + σ²J then stays positive definite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from .._arrays import (
    Array,
    cast,
    clip_below,
    diagonal_matrix,
    double,
    eigh,
    gram,
    namespace,
    product,
    zeros,
)
from ..lowrank import Complement


@dataclass(frozen=True)
class Dropped:
    """Features F (W, m) that are dropped, of the rows that stay known, and the noise variance of the fit.

    M = A + σ²I of the rows that are gone is replaced by its Schur complement.
    """

    F: Array
    noise: float


@dataclass(frozen=True)
class NormalEquations:
    """The sufficient statistics of the rows learned so far; every operation returns new ones.

    Attributes
    ----------
    gram : (r, r), moment : (r, q), energy : (q, q)
        A, c and s of the table above.
    count, prior_trace : float
        n and κ.
    signature : (r,), optional
        The diagonal of J where some features have a negative sign.
    log_whitening : float
        Σ log det R over batches that were whitened by R (Huber's recursion), less the logarithms of weights.
    surplus : float
        The number of rows less the sum of their weights.
    """

    gram: Array
    moment: Array
    energy: Array
    count: float
    prior_trace: float
    signature: Array | None = None
    log_whitening: float = 0.0
    surplus: float = 0.0

    @classmethod
    def empty(cls, rank: int, n_outputs: int, like: Array) -> Self:
        """Return the statistics of no rows, on the device of `like`."""
        base = double(like[:0, :])
        return cls(
            zeros((rank, rank), base),
            zeros((rank, n_outputs), base),
            zeros((n_outputs, n_outputs), base),
            0,
            0.0,
        )

    @classmethod
    def of_eigenpairs(
        cls, values: Array, moment: Array, energy: Array, count: float, prior_trace: float
    ) -> Self:
        """Return the statistics of the features U|S|^½: A = diag(|S|) for eigenvalues S (r,)."""
        xp, values = namespace(values), double(values)
        signature = None if bool(xp.all(values > 0)) else xp.sign(values)
        gram_matrix, moment = diagonal_matrix(xp.abs(values)), double(moment)
        return cls(gram_matrix, moment, double(energy), count, prior_trace, signature=signature)

    @property
    def rank(self) -> int:
        """The number of features."""
        return int(self.gram.shape[0])

    @property
    def rows(self) -> float:
        """The number of rows, less what was forgotten, whatever their weights."""
        return self.count + self.surplus

    @property
    def at_least_one(self) -> float:
        """The sum of weights, at least that of one typical row: what a sum over rows is divided by."""
        return max(self.count, min(1.0, self.count / self.rows)) if self.rows > 0 < self.count else 1.0

    def add(
        self,
        F: Array,
        y: Array,
        prior_trace: float,
        log_whitening: float = 0.0,
        *,
        mixed: bool = False,
        sign: int = 1,
        weights: Array | None = None,
    ) -> Self:
        """Add a batch with features F (b, r) and targets y (b, q); A += FᵀWF, O(b r²).

        `weights` (b,) are the diagonal of W, None for ones; `prior_trace` is Σ wᵢ k(xᵢ, xᵢ). `mixed`: compute FᵀF in
        the precision of F. `sign=-1`: subtract it.
        """
        count: float = F.shape[0]
        surplus = 0.0
        if weights is not None:
            xp, root = namespace(weights), namespace(weights).sqrt(weights)[:, None]
            F, y = cast(root, F.dtype) * F if mixed else root * double(F), root * double(y)
            count = float(xp.sum(weights))
            surplus = F.shape[0] - count
            log_whitening = log_whitening - float(xp.sum(xp.log(weights)))
        new = double(gram(F if mixed else double(F)))
        F, y = double(F), double(y)
        new *= sign
        new += self.gram
        return replace(
            self,
            gram=new,
            moment=self.moment + sign * (namespace(F).matrix_transpose(F) @ y),
            energy=self.energy + sign * gram(y),
            count=self.count + sign * count,
            prior_trace=self.prior_trace + sign * prior_trace,
            log_whitening=self.log_whitening + sign * log_whitening,
            surplus=self.surplus + sign * surplus,
        )

    def subtract(
        self,
        F: Array,
        y: Array,
        prior_trace: float,
        log_whitening: float = 0.0,
        *,
        weights: Array | None = None,
    ) -> Self:
        """Subtract a batch; the exact inverse of `add`. O(b r²)."""
        return self.add(F, y, prior_trace, log_whitening, sign=-1, weights=weights)

    def merge(self, other: Self) -> Self:
        """Return the sum of two statistics of the same features; O(r²)."""
        return replace(
            self,
            gram=self.gram + other.gram,
            moment=self.moment + other.moment,
            energy=self.energy + other.energy,
            count=self.count + other.count,
            prior_trace=self.prior_trace + other.prior_trace,
            log_whitening=self.log_whitening + other.log_whitening,
            surplus=self.surplus + other.surplus,
        )

    def forget(self, rate: float) -> Self:
        """Multiply the weight of every row learned so far by `rate`; O(r²)."""
        return replace(
            self,
            gram=rate * self.gram,
            moment=rate * self.moment,
            energy=rate * self.energy,
            count=rate * self.count,
            prior_trace=rate * self.prior_trace,
            log_whitening=rate * self.log_whitening,
            surplus=rate * self.surplus,
        )

    def rescaled(self, factors: Array) -> Self:
        """Return the statistics of the same rows with targets multiplied by `factors` (q,)."""
        energy = self.energy * (factors[:, None] * factors[None, :])
        return replace(self, moment=self.moment * factors[None, :], energy=energy)

    def moved(self, constant: Array, shift: Array) -> Self:
        """Return the statistics of the same rows with targets smaller by `shift` (q,); O(r²).

        `constant` (r,) are the weights of the constant function 1: Φ·constant = 1 for every row learned.
        """
        column = self.gram @ constant  # Φᵀ1
        totals = constant @ self.moment  # 1ᵀy
        cross = shift[:, None] * totals[None, :]
        energy = self.energy - cross - namespace(cross).matrix_transpose(cross)
        energy = energy + (constant @ column) * (shift[:, None] * shift[None, :])
        return replace(self, moment=self.moment - column[:, None] * shift[None, :], energy=energy)

    def extend(self, F: Array, G: Array, y: Array, weights: Array) -> Self:
        """Append m features that only W recent rows have; O(W r m + r²).

        F (W, r) are the old features of these rows, G (W, m) the new ones, y (W, q) their targets and
        weights (W,) their weights. For all other rows the new features are taken as zero.
        """
        xp = namespace(self.gram)
        F, G, y = double(F), double(G), double(y)
        weighted = xp.matrix_transpose(G * weights[:, None])
        cross = weighted @ F
        bottom = xp.concat([cross, weighted @ G], axis=1)
        top = xp.concat([self.gram, xp.matrix_transpose(cross)], axis=1)
        return replace(
            self,
            gram=xp.concat([top, bottom], axis=0),
            moment=xp.concat([self.moment, weighted @ y], axis=0),
        )

    def transform(self, T: Array) -> Self:
        """Return the statistics of the features Tφ, T (r', r), exactly; O(r³)."""
        T, xp = double(T), namespace(self.gram)
        new = product(product(T, self.gram), xp.matrix_transpose(T))
        return replace(self, gram=0.5 * (new + xp.matrix_transpose(new)), moment=product(T, self.moment))

    def drop(self, complement: Complement) -> Self:
        """Return the statistics of the features that are left when some directions are dropped, exactly; O(r² m)."""
        xp, m = namespace(self.gram), complement.T.shape[0]
        moment = xp.matrix_transpose(complement.rows(xp.matrix_transpose(self.moment)))
        return replace(self, gram=complement.both(self.gram)[m:, m:], moment=moment)

    def exchange(
        self, complement: Complement, F: Array, y: Array, weights: Array, dropped: Dropped | None = None
    ) -> Self:
        """Drop the first m axes of `complement` and put new features in their place; O(r² m + W r m).

        F (W, r) are the features of the rows that have the new ones, these first; y (W, q) and weights (W,) as in
        `extend`. The statistics of the other axes are those of all rows, as if the dropped ones had never been there;
        or, with `dropped`, those of the posterior of the other axes given the rows that are gone, marginalised over
        the dropped ones: rows that only these explained do not pull at the others.
        """
        xp, m = namespace(self.gram), complement.T.shape[0]
        F = double(F)
        weighted = xp.matrix_transpose(F[:, :m] * weights[:, None])
        new, cross = complement.both(self.gram), product(weighted, F)
        moment = xp.matrix_transpose(complement.turn(xp.matrix_transpose(self.moment)))
        if dropped is not None:
            own = xp.matrix_transpose(dropped.F * weights[:, None])
            rest = xp.concat([new[:m, m:] - product(own, F[:, m:]), moment[:m, :] - own @ y], axis=1)
            values, Q = eigh(new[:m, :m] - own @ dropped.F, "the gram matrix of dropped features")
            half = xp.matrix_transpose(Q) @ rest / xp.sqrt(clip_below(values, 0.0) + dropped.noise)[:, None]
            both = product(xp.matrix_transpose(half[:, : self.rank - m]), half)
            new[m:, m:] -= both[:, : self.rank - m]
            moment[m:, :] -= both[:, self.rank - m :]
        new[:m, :], new[:, :m] = cross, xp.matrix_transpose(cross)
        moment[:m, :] = weighted @ y
        return replace(self, gram=new, moment=moment)

    def repaired(self, before: Self) -> tuple[Self, float]:
        """Return the nearest statistics that some set of rows has, and the distance to them; O(r³).

        [[A, c], [cᵀ, s]] is the gram matrix of features and targets and so positive semi-definite; negative
        eigenvalues are set to zero. The distance is minus the lowest eigenvalue, 0 if none is negative, in units of
        the diagonal that the matrix had `before` rows were subtracted.
        """
        xp, r = namespace(self.gram), self.rank
        size = xp.sqrt(clip_below(xp.linalg.diagonal(before._joint) + 0.0, 0.0))
        size = xp.where(size > 0, size, xp.ones_like(size))
        values, V = eigh(self._joint / (size[:, None] * size[None, :]), "the gram matrix")
        distance = max(0.0, -float(xp.min(values)))
        if not distance:
            return self, distance
        joint = (V * xp.where(values > 0, values, xp.zeros_like(values))[None, :]) @ xp.matrix_transpose(V)
        joint = 0.5 * (joint + xp.matrix_transpose(joint)) * (size[:, None] * size[None, :])
        return replace(self, gram=joint[:r, :r], moment=joint[:r, r:], energy=joint[r:, r:]), distance

    @property
    def _joint(self) -> Array:
        """The gram matrix of features and targets together, shape (r + q, r + q)."""
        xp = namespace(self.gram)
        top = xp.concat([self.gram, self.moment], axis=1)
        return xp.concat([top, xp.concat([xp.matrix_transpose(self.moment), self.energy], axis=1)], axis=0)

    @property
    def trace_error(self) -> float:
        """tr(K − ΦJΦᵀ), exactly, in O(r)."""
        xp, diagonal = namespace(self.gram), namespace(self.gram).linalg.diagonal(self.gram)
        signed = diagonal if self.signature is None else diagonal * self.signature
        return float(self.prior_trace) - float(xp.sum(signed))
