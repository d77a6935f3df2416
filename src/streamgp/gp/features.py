"""Feature maps φ with φ(x)ᵀJφ(x') ≈ k(x, x'): the Nyström features of inducing points, eigenfunctions, polynomials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from .._arrays import (
    Array,
    cholesky,
    clip_below,
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
    zeros,
)
from ..errors import NumericalError
from ..kernels import Kernel
from ..lowrank import Complement, Factor, pivoted_cholesky


@dataclass(frozen=True)
class Pivots:
    """Nyström features φ(x) = V k(Z, x) with V k(Z, Z) Vᵀ = I, for inducing points Z (the pivots).

    V is any root of the inverse, not always a triangle: that makes dropping a pivot a reflection.

    Attributes
    ----------
    kernel : Kernel
    Z : (r, d)
    V : (r, r)
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
        return cls(kernel, zeros((0, like.shape[1]), like), zeros((0, 0), like), True)

    @classmethod
    def choose(cls, kernel: Kernel, X: Array, rank: int, seed: Sequence[int] | None) -> Pivots:
        """Choose at most `rank` rows of X (n, d) as pivots, none linearly dependent on the others to rounding.

        Drawn in proportion to residual variance, or, for seed None, the largest first. O(n r²).
        """
        tolerance = 10 * X.shape[0] * eps(X)
        factor = pivoted_cholesky(
            lambda i: kernel.block(X, X[i : i + 1, :])[:, 0], kernel.diag(X), rank, tolerance, seed
        )
        return cls(kernel, namespace(X).take(X, index(factor.pivots, X), axis=0), X[:0, :0]).rebased()

    @property
    def rank(self) -> int:
        """The number of features."""
        return int(self.Z.shape[0])

    @cached_property
    def _against(self) -> Callable[[Array], Array]:
        return self.kernel.against(self.Z)

    def rebased(self) -> Pivots:
        """Return the same pivots with V = L⁻¹, LLᵀ = k(Z, Z); O(r³). Ends the drift of many changes."""
        L = cholesky(self.kernel.block(self.Z), "the kernel matrix of the pivots")
        return Pivots(self.kernel, self.Z, solve_lower(L, eye(self.rank, L)), True)

    def superfluous(self, kernel: Kernel, tolerance: float) -> list[int]:
        """Return the pivots of whose variance under another kernel the others leave less than `tolerance`."""
        kept = pivoted_cholesky(
            lambda i: kernel.block(self.Z, self.Z[i : i + 1, :])[:, 0],
            kernel.diag(self.Z),
            self.rank,
            tolerance,
            None,
        ).pivots
        return sorted(set(range(self.rank)) - set(kept))

    def retuned(self, kernel: Kernel) -> tuple[Pivots, Array]:
        """Return the same pivots for another kernel, and T (r, r) that turns old features into new ones; O(r³).

        The values of the function at the pivots stay: f(Z) = V⁻¹w = V'⁻¹w', so Φ' = ΦVV'⁻¹.
        """
        new, xp = Pivots(kernel, self.Z, self.V).rebased(), namespace(self.V)
        inverse = product(double(new.V), double(kernel.block(self.Z)))  # V'⁻ᵀ
        return new, product(inverse, xp.matrix_transpose(double(self.V)))

    def transform(self, X: Array) -> Array:
        """Return the features of the rows of X (b, d); shape (b, r), b·r kernel entries, O(b r²)."""
        if not self.rank:
            return zeros((X.shape[0], 0), X)
        K = self._against(X) if is_foreign(X) else self.kernel.block(X, self.Z)
        return (
            product_lower(K, self.V) if self.triangular else product(K, namespace(X).matrix_transpose(self.V))
        )

    def unexplained(self, X: Array, F: Array) -> Array:
        """Return k(x, x) − φᵀφ, the prior variance that the pivots leave of rows with features F (n, r); (n,)."""
        F = double(F)
        return double(self.kernel.diag(X)) - namespace(F).vecdot(F, F)

    def extend(self, X: Array, F: Array, L: Array) -> Pivots:
        """Add the rows of X (m, d) as pivots; F (m, r) are their features, LLᵀ = k(X, X) − FFᵀ (m, m). O(m r²)."""
        xp, r, m = namespace(X), self.rank, X.shape[0]
        bottom = solve_lower(L, xp.concat([-1.0 * (F @ self.V), eye(m, L)], axis=1))
        top = xp.concat([self.V, zeros((r, m), self.V)], axis=1)
        V = xp.concat([top, bottom], axis=0)
        return Pivots(self.kernel, xp.concat([self.Z, X], axis=0), V, self.triangular)

    def exchange(self, pivots: Sequence[int], complement: Complement, X: Array, F: Array, L: Array) -> Pivots:
        """Replace the pivots with these numbers by the rows of X (m, d); O(m r²).

        `complement` is that of the directions of these pivots, F (m, r − m) are the features of X in what is left,
        LLᵀ = k(X, X) − FFᵀ (m, m). The new features come first.
        """
        xp, m = namespace(X), X.shape[0]
        V = xp.matrix_transpose(complement.turn(xp.matrix_transpose(self.V)))
        inverse = solve_lower(L, eye(m, L))
        V[:m, :] = -1.0 * (inverse @ product(F, V[m:, :]))
        Z = xp.asarray(self.Z, copy=True)
        for i, pivot in enumerate(pivots):
            V[:, pivot] = 0.0
            V[:m, pivot] = inverse[:, i]
            Z[pivot, :] = X[i, :]
        return Pivots(self.kernel, Z, V)

    def drop(self, pivots: Sequence[int]) -> tuple[Pivots, Complement]:
        """Drop the pivots with these numbers; the complement turns old features into new ones, exactly. O(m r²)."""
        xp = namespace(self.V)
        complement = Complement.of(xp.take(self.V, index(pivots, self.V), axis=1))
        kept = index([i for i in range(self.rank) if i not in set(pivots)], self.V)
        turned = xp.matrix_transpose(complement.rows(xp.matrix_transpose(self.V)))
        return Pivots(self.kernel, xp.take(self.Z, kept, axis=0), xp.take(turned, kept, axis=1)), complement


@dataclass(frozen=True)
class Spectral:
    """φ(x) = |S|^−½ J Uᵀk(X, x): the eigenfunctions of the factor U diag(S) Uᵀ of k(X, X).

    Attributes
    ----------
    kernel : Kernel
    X : (n, d)
    factor : Factor
        U (n, r), S (r,); J = sign(S).
    """

    kernel: Kernel
    X: Array
    factor: Factor

    @property
    def rank(self) -> int:
        """The number of features."""
        return self.factor.rank

    def project(self, x: Array) -> Array:
        """Return k(x, X)·U for the rows of x (b, d); shape (b, r), n·b kernel entries, O(n b r).

        Row block by row block, so that no n×b matrix is ever formed.
        """

        def part(rows: slice) -> Array:
            return self.kernel.block(x, self.X[rows, :]) @ self.factor.U[rows, :]

        return reduce(
            lambda total, p: total + p, in_parallel(part, row_parts(self.X.shape[0], self.X), self.X)
        )

    def transform(self, x: Array) -> Array:
        """Return the features of the rows of x (b, d); shape (b, r)."""
        return self.scale(self.project(x))

    def scale(self, projection: Array) -> Array:
        """Return the features for k(x, X)·U (b, r)."""
        xp, S = namespace(projection), self.factor.S
        return projection * (xp.sign(S) / xp.sqrt(xp.abs(S)))[None, :]

    def basis(self) -> Array:
        """Return Φ = U|S|^½, the features of X itself as the factor has them; shape (n, r)."""
        xp = namespace(self.factor.U)
        return self.factor.U * xp.sqrt(xp.abs(self.factor.S))[None, :]


def whiten(F: Array, y: Array, prior: Array, noise: float) -> tuple[Array, Array, float]:
    """Whiten a batch as Huber's recursion does: what the features F (b, r) do not explain is correlated noise.

    R = (k(x, x) − FFᵀ + σ²I)/σ² = L_R L_Rᵀ for prior = k(x, x), (b, b).

    Returns
    -------
    L_R⁻¹F (b, r), L_R⁻¹y (b, q), log det R
    """
    xp = namespace(F)
    residual = prior - F @ xp.matrix_transpose(F)
    both = xp.concat([F, y], axis=1)
    try:
        L = cholesky(residual / noise + eye(F.shape[0], F), "the whitening of the batch")
        both, log_det = solve_lower(L, both), 2.0 * float(xp.sum(xp.log(xp.linalg.diagonal(L))))
    except NumericalError:
        # The residual is positive semi-definite; σ² is below its rounding, which is cut off at zero.
        values, V = eigh(residual, "the kernel")
        scale = 1.0 + clip_below(values, 0.0) / noise
        both = (xp.matrix_transpose(V) @ both) / xp.sqrt(scale)[:, None]
        log_det = float(xp.sum(xp.log(scale)))
    return both[:, : F.shape[1]], both[:, F.shape[1] :], log_det


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
