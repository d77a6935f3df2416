"""Feature maps φ with φ(x)ᵀJφ(x') ≈ k(x, x'): the Nyström features of inducing points, eigenfunctions, polynomials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from .._arrays import (
    Array,
    asarray_like,
    cast,
    cholesky,
    clip_below,
    diagonal_matrix,
    double,
    eigh,
    eps,
    eye,
    in_parallel,
    index,
    is_foreign,
    namespace,
    product,
    product_lower,
    row_parts,
    solve_lower,
    to_host,
    zeros,
)
from ..errors import NumericalError
from ..kernels import Constant, Kernel, Sum
from ..lowrank import Complement, Factor, pivoted_cholesky


@dataclass(frozen=True)
class Pivots:
    """Nyström features φ(x) = V cov(u, f(x)) with V cov(u, u) Vᵀ = I, for inducing variables u.

    u holds the values of the function at the inducing points Z (the pivots), after the coefficients of the kernel's
    trend where it has one: m of them, which are never dropped. V is any root of the inverse, not always a triangle:
    that makes dropping a pivot a reflection.

    Attributes
    ----------
    kernel : Kernel
    Z : (r, d)
    V : (m + r, m + r)
    triangular : bool
        Whether V is a lower triangle.
    """

    kernel: Kernel
    Z: Array
    V: Array
    triangular: bool = False

    @classmethod
    def none(cls, kernel: Kernel, like: Array) -> Pivots:
        """Return no pivots, on the device of `like` (·, d)."""
        return cls(kernel, zeros((0, like.shape[1]), like), zeros((0, 0), like), True).rebased()

    @classmethod
    def choose(cls, kernel: Kernel, X: Array, rank: int, seed: Sequence[int] | None) -> Pivots:
        """Choose at most `rank` rows of X (n, d) as pivots, none linearly dependent on the others to rounding.

        Drawn in proportion to residual variance, or, for seed None, the largest first. O(n r²).
        """
        tolerance = 10 * X.shape[0] * eps(X)
        rest = without_trend(kernel)
        # Of k(X, X) single columns are computed.
        factor = pivoted_cholesky(
            lambda i: rest.block(X, X[i : i + 1, :])[:, 0], rest.diag(X), rank, tolerance, seed
        )
        return cls(kernel, namespace(X).take(X, index(factor.pivots, X), axis=0), X[:0, :0]).rebased()

    @property
    def rank(self) -> int:
        """The number of pivots."""
        return int(self.Z.shape[0])

    @cached_property
    def n_trend(self) -> int:
        """m, the number of coefficients of the trend."""
        trend = self.kernel.split()[0]
        return 0 if trend is None else trend.coefficients.size

    @property
    def size(self) -> int:
        """The number of features, m + r."""
        return self.n_trend + self.rank

    @cached_property
    def _against(self) -> Callable[[Array], Array]:
        return self.kernel.against(self.Z)

    @cached_property
    def gram(self) -> Array:
        """cov(u, u), shape (m + r, m + r)."""
        return covariance_between(self.kernel, self.Z, self.Z)

    def columns(self, pivots: Sequence[int], like: Array) -> Array:
        """Return the places of some pivots among the inducing variables, as an index on the device of `like`."""
        return index([self.n_trend + j for j in pivots], like)

    def constant(self) -> Array | None:
        """Return the weights w (m + r,) with φ(x)ᵀw = 1 for every x; None where the kernel has no trend.

        w = Vu of the inducing variables u of the function 1: its first coefficient, and its values at the pivots.
        """
        if not self.n_trend:
            return None
        u = np.ones(self.size)
        u[1 : self.n_trend] = 0.0
        return double(self.V) @ asarray_like(u, double(self.V))

    def rebased(self) -> Pivots:
        """Return the same pivots with V = L⁻¹, LLᵀ = cov(u, u); O(r³). Ends the drift of many changes."""
        L = cholesky(self.gram, "the kernel matrix of the pivots")
        return Pivots(self.kernel, self.Z, solve_lower(L, eye(self.size, L)), True)

    def superfluous(self, kernel: Kernel, tolerance: float) -> list[int]:
        """Return the pivots of whose variance under another kernel the others leave less than `tolerance`."""
        rest = without_trend(kernel)
        K = rest.block(self.Z)
        kept = pivoted_cholesky(lambda i: K[:, i], rest.diag(self.Z), self.rank, tolerance, None).pivots
        return sorted(set(range(self.rank)) - set(kept))

    def retuned(self, kernel: Kernel) -> tuple[Pivots, Array]:
        """Return the same pivots for another kernel, and T that turns old features into new ones; O(r³).

        The function stays at the pivots, and its trend: u' = Bu, where B changes the units of coefficients. With
        u = V⁻¹w, w' = V'BV⁻¹w and Φ' = ΦTᵀ, T = (V'BV⁻¹)⁻ᵀ.
        """
        new, xp = Pivots(kernel, self.Z, self.V).rebased(), namespace(self.V)
        inverse = product(double(new.V), double(new.gram))  # V'⁻ᵀ
        trend, before = kernel.split()[0], self.kernel.split()[0]
        if trend is not None and before is not None and trend != before:
            B = np.eye(self.size)
            B[: self.n_trend, : self.n_trend] = np.linalg.inv(before.coefficients_in(trend)).T
            inverse = product(inverse, asarray_like(B, inverse))
        return new, product(inverse, xp.matrix_transpose(double(self.V)))

    def transform(self, X: Array) -> Array:
        """Return the features of the rows of X (b, d); shape (b, m + r), b·r kernel entries, O(b r²)."""
        if not self.size:
            return zeros((X.shape[0], 0), X)
        K = covariance(self.kernel, X, self.Z, against=self._against if is_foreign(X) else None)
        return (
            product_lower(K, self.V) if self.triangular else product(K, namespace(X).matrix_transpose(self.V))
        )

    def input_gradient(self, X: Array, C: Array) -> Array:
        """Return the derivative by x of φ(x)ᵀc for the rows of X (b, d) and C (b, m + r); (b, d), O(b r (r + d)).

        With C (1, m + r), the same for all rows, O(r² + b r d).
        """
        C = for_each_row(double(C) @ double(self.V), X)
        trend, m = self.kernel.split()[0], self.n_trend
        out = double(self.kernel.input_gradient(double(X), double(self.Z), C[:, m:]))
        if trend is None:
            return out
        return out + trend.by_coefficients(double(X), C[:, :m] * asarray_like(trend.coefficients, C))

    def unexplained(self, X: Array, F: Array) -> Array:
        """Return k(x, x) − φᵀφ, the prior variance that the pivots leave of rows with features F (n, m + r); (n,)."""
        F = double(F)
        return double(self.kernel.diag(X)) - namespace(F).vecdot(F, F)

    def extend(self, X: Array, F: Array, L: Array) -> Pivots:
        """Add the rows of X (m, d) as pivots; F (m, ·) are their features, LLᵀ = k(X, X) − FFᵀ (m, m). O(m r²)."""
        xp, r, m = namespace(X), self.size, X.shape[0]
        bottom = solve_lower(L, xp.concat([-1.0 * (F @ self.V), eye(m, L)], axis=1))
        top = xp.concat([self.V, zeros((r, m), self.V)], axis=1)
        V = xp.concat([top, bottom], axis=0)
        return Pivots(self.kernel, xp.concat([self.Z, X], axis=0), V, self.triangular)

    def precision_lost(self, F: Array, L: Array, prior: Array) -> np.ndarray:
        """Return how many times rounding is multiplied in the feature of each of m new pivots; shape (m,).

        The squared norm of its row of V in units of 1/prior (m,); F (m, ·) and L as in `extend`. O(m r²).
        """
        xp, m = namespace(L), L.shape[0]
        columns = -1.0 * product(double(F), double(self.V)[:, self.n_trend :])
        rows = solve_lower(L, xp.concat([columns, eye(m, L)], axis=1))
        return to_host(xp.sum(rows * rows, axis=1) * double(prior))

    def exchange(self, pivots: Sequence[int], complement: Complement, X: Array, F: Array, L: Array) -> Pivots:
        """Replace the pivots with these numbers by the rows of X (m, d); O(m r²).

        `complement` is that of the directions of these pivots, F are the features of X in what is left,
        LLᵀ = k(X, X) − FFᵀ (m, m). The new features come first.
        """
        xp, m = namespace(X), X.shape[0]
        V = xp.matrix_transpose(complement.turn(xp.matrix_transpose(self.V)))
        inverse = solve_lower(L, eye(m, L))
        V[:m, :] = -1.0 * (inverse @ product(F, V[m:, :]))
        Z = xp.asarray(self.Z, copy=True)
        for i, pivot in enumerate(pivots):
            column = self.n_trend + pivot
            V[:, column] = 0.0
            V[:m, column] = inverse[:, i]
            Z[pivot, :] = X[i, :]
        return Pivots(self.kernel, Z, V)

    def drop(self, pivots: Sequence[int]) -> tuple[Pivots, Complement]:
        """Drop the pivots with these numbers; the complement turns old features into new ones, exactly. O(m r²)."""
        xp = namespace(self.V)
        complement = Complement.of(xp.take(self.V, self.columns(pivots, self.V), axis=1))
        rest = [i for i in range(self.rank) if i not in set(pivots)]
        columns = index([*range(self.n_trend), *(self.n_trend + i for i in rest)], self.V)
        turned = xp.matrix_transpose(complement.rows(xp.matrix_transpose(self.V)))
        Z = xp.take(self.Z, index(rest, self.V), axis=0)
        return Pivots(self.kernel, Z, xp.take(turned, columns, axis=1)), complement


def without_trend(kernel: Kernel) -> Kernel:
    """Return the part of a kernel that inducing points are chosen for; the whole of it where it is a trend alone."""
    rest = kernel.split()[1]
    return kernel if rest is None else rest


def varying_part(kernel: Kernel) -> Kernel:
    """Return the part of a kernel that inducing points are chosen for, without constants in a sum."""
    rest = without_trend(kernel)
    parts = [k for k in rest.kernels if not isinstance(k, Constant)] if isinstance(rest, Sum) else []
    return rest if not parts else parts[0] if len(parts) == 1 else Sum(tuple(parts))


def covariance(kernel: Kernel, X: Array, Z: Array, against: Callable[[Array], Array] | None = None) -> Array:
    """Return cov(f(X), u) for X (n, d) and the inducing variables u of the pivots Z (r, d); shape (n, m + r).

    `against` computes k(·, Z), where part of it was prepared.
    """
    trend = kernel.split()[0]
    block = kernel.block(X, None if X is Z else Z) if against is None else against(X)
    if trend is None:
        return block
    return namespace(Z).concat([trend.against_coefficients(X), block], axis=1)


def covariance_between(kernel: Kernel, Z: Array, others: Array) -> Array:
    """Return cov(u, u') of the inducing variables of two sets of pivots, Z (r, d) and others (s, d)."""
    trend, xp, points = kernel.split()[0], namespace(Z), covariance(kernel, Z, others)
    if trend is None:
        return points
    own = diagonal_matrix(asarray_like(trend.coefficients, Z))
    first = xp.concat([own, xp.matrix_transpose(trend.against_coefficients(others))], axis=1)
    return xp.concat([first, points], axis=0)


@dataclass(frozen=True)
class Spectral:
    """φ(x) = |S|^−½ J UᵀW^½k(X, x): the eigenfunctions of the factor U diag(S) Uᵀ of W^½k(X, X)W^½.

    Attributes
    ----------
    kernel : Kernel
    X : (n, d)
    factor : Factor
        U (n, r), S (r,); J = sign(S).
    weights : (n,) or None
        The diagonal of W; None for ones.
    """

    kernel: Kernel
    X: Array
    factor: Factor
    weights: Array | None = None

    @property
    def rank(self) -> int:
        """The number of features."""
        return self.factor.rank

    def project(self, x: Array) -> Array:
        """Return k(x, X)·W^½U for the rows of x (b, d); shape (b, r), n·b kernel entries, O(n b r).

        Row block by row block, so that no n×b matrix is ever formed.
        """
        U = self.factor.U
        if self.weights is not None:
            U = U * cast(namespace(U).sqrt(self.weights), U.dtype)[:, None]

        def part(rows: slice) -> Array:
            return self.kernel.block(x, self.X[rows, :]) @ U[rows, :]

        return reduce(
            lambda total, p: total + p, in_parallel(part, row_parts(self.X.shape[0], self.X), self.X)
        )

    def transform(self, x: Array) -> Array:
        """Return the features of the rows of x (b, d); shape (b, r)."""
        return self.scale(self.project(x))

    def input_gradient(self, x: Array, C: Array) -> Array:
        """Return the derivative by x of φ(x)ᵀc for the rows of x (b, d) and C (b, r); shape (b, d), O(b n (r + d)).

        With C (1, r), the same for all rows, O(n r + b n d).
        """
        xp, U = namespace(C), double(self.factor.U)
        at_rows = xp.matrix_transpose(U if self.weights is None else U * xp.sqrt(self.weights)[:, None])
        coefficients = for_each_row(self.scale(C) @ at_rows, x)
        return double(self.kernel.input_gradient(double(x), double(self.X), coefficients))

    def scale(self, projection: Array) -> Array:
        """Return the features for k(x, X)·W^½U (b, r)."""
        xp, S = namespace(projection), self.factor.S
        return projection * (xp.sign(S) / xp.sqrt(xp.abs(S)))[None, :]

    def basis(self) -> Array:
        """Return U|S|^½, the features of X itself as the factor has them, times W^½; shape (n, r)."""
        xp = namespace(self.factor.U)
        return self.factor.U * xp.sqrt(xp.abs(self.factor.S))[None, :]


def for_each_row(C: Array, X: Array) -> Array:
    """Return C (1, m) or (b, m) as coefficients of the rows of X (b, d); (b, m)."""
    return C + zeros((X.shape[0], 1), C)


def whiten(
    F: Array, y: Array, prior: Array, noise: float, weights: Array | None = None
) -> tuple[Array, Array, float]:
    """Whiten a batch as Huber's recursion does: what the features F (b, r) do not explain is correlated noise.

    R = (k(x, x) − FFᵀ + σ²W⁻¹)/σ² = L_R L_Rᵀ for prior = k(x, x), (b, b), and weights (b,), None for ones.

    Returns
    -------
    L_R⁻¹F (b, r), L_R⁻¹y (b, q), log det R
    """
    xp = namespace(F)
    residual = prior - F @ xp.matrix_transpose(F)
    both, log_weights = xp.concat([F, y], axis=1), 0.0
    if weights is not None:
        # The rows √w(F, y) have the noise σ²: R = W^−½ (W^½(k(x, x) − FFᵀ)W^½ + σ²I)/σ² W^−½.
        root, log_weights = xp.sqrt(weights), float(xp.sum(xp.log(weights)))
        residual, both = residual * (root[:, None] * root[None, :]), both * root[:, None]
    try:
        L = cholesky(residual / noise + eye(F.shape[0], F), "the whitening of the batch")
        both, log_det = solve_lower(L, both), 2.0 * float(xp.sum(xp.log(xp.linalg.diagonal(L))))
    except NumericalError:
        # The residual is positive semi-definite; σ² is below its rounding, which is cut off at zero.
        values, V = eigh(residual, "the kernel")
        scale = 1.0 + clip_below(values, 0.0) / noise
        both = (xp.matrix_transpose(V) @ both) / xp.sqrt(scale)[:, None]
        log_det = float(xp.sum(xp.log(scale)))
    return both[:, : F.shape[1]], both[:, F.shape[1] :], log_det - log_weights


@dataclass(frozen=True)
class Quadratic:
    """‖x − x'‖² as φ(x)ᵀJφ(x') with d + 2 features, exactly.

    With x̃ = (x − o)/ℓ and p = ‖x̃‖²: ‖x − x'‖² = ℓ²[(p + 1)(p' + 1)/2 − (p − 1)(p' − 1)/2 − 2x̃ᵀx̃'].

    Attributes
    ----------
    origin : (d,)
        o and ℓ: a point and a size near those of the data, so that no digits cancel.
    unit : float
    """

    origin: Array
    unit: float

    @classmethod
    def about(cls, X: Array) -> Quadratic:
        """Return the map with origin and unit of the first rows X (n, d)."""
        xp = namespace(X)
        origin = xp.mean(X, axis=0)
        size = float(xp.mean(xp.sum((X - origin) ** 2, axis=1))) ** 0.5
        return cls(origin, size if size > 0 else 1.0)

    def signs(self) -> Array:
        """Return the diagonal of J, shape (d + 2,)."""
        xp = namespace(self.origin)
        minus = -1.0 * xp.ones_like(self.origin)
        return xp.concat([minus, 1.0 + 0.0 * self.origin[:1], minus[:1]])

    def transform(self, X: Array) -> Array:
        """Return the features of the rows of X (b, d); shape (b, d + 2)."""
        xp = namespace(X)
        A = (X - self.origin) / self.unit
        p = xp.sum(A * A, axis=1)[:, None]
        return self.unit * xp.concat([2.0**0.5 * A, (p + 1.0) / 2.0**0.5, (p - 1.0) / 2.0**0.5], axis=1)
