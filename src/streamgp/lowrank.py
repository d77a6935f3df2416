"""Low-rank factors of symmetric matrices: Algorithms 1, 2 and 3 of the paper, and pivoted Cholesky.

Matrices only; nothing here knows of data, kernels or noise. A matrix may be given as an array or as any
object with ``shape`` and ``@`` (a matrix-free operator).

References
----------
Halko, Martinsson & Tropp, Finding structure with randomness (2011), Algorithms 4.1 and 5.1.
Fukaya et al., CholeskyQR2 (2014). Chen, Epperly, Tropp & Webber, Randomly pivoted Cholesky (2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ._arrays import (
    Array,
    asarray_like,
    cast,
    cholesky,
    diagonal_matrix,
    double,
    eigh,
    empty,
    eps,
    eye,
    finite,
    gram,
    in_parallel,
    less_product,
    namespace,
    product,
    row_parts,
    solve_lower,
    standard_normal,
    to_host,
    zeros,
)
from .errors import NumericalError, ParameterError

Operator: TypeAlias = Any  # an array, or an object with `shape` and `@`


@dataclass(frozen=True)
class Factor:
    """U diag(S) Uᵀ: the one result of every algorithm here.

    Attributes
    ----------
    U : (n, r)
        Orthonormal columns, or the columns of a pivoted Cholesky factor (then S is all ones).
    S : (r,)
        Signed; negative entries belong to an indefinite matrix.
    pivots : (r,) of int
        Rows chosen by pivoted Cholesky; empty for the others.
    """

    U: Array
    S: Array
    pivots: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        """The number of columns."""
        return int(self.S.shape[0])

    def dense(self) -> Array:
        """Return U diag(S) Uᵀ, shape (n, n)."""
        return (self.U * self.S[None, :]) @ namespace(self.U).matrix_transpose(self.U)


def orthonormalize(Y: Array) -> Array:
    """Return an orthonormal basis (n, k) of the columns of Y (n, k).

    CholeskyQR2, two or three times faster than Householder's reflections on tall matrices; where Y is not
    tall, too ill-conditioned (beyond 1/√eps) or rank-deficient, Householder's reflections.
    """
    xp = namespace(Y)
    if Y.shape[0] >= 10 * Y.shape[1]:
        try:
            once = solve_lower(cholesky(gram(Y), "YᵀY"), Y, rows=True)
            nearly_identity = gram(once)
            if float(xp.max(xp.abs(nearly_identity - eye(Y.shape[1], Y)))) < 0.1:
                return solve_lower(cholesky(nearly_identity, "QᵀQ"), once, rows=True)
        except NumericalError:
            pass  # not an error: the other algorithm is for this
    return xp.linalg.qr(Y, mode="reduced")[0]


def range_finder(A: Operator, size: int, seed: Sequence[int], like: Array) -> Array:
    """Algorithm 1: an orthonormal Q (m, size) whose span nearly holds the range of A (m, n)."""
    test_matrix = standard_normal(seed, (A.shape[1], size), like)  # step 3
    return orthonormalize(A @ test_matrix)  # steps 4 and 5


def randomized_eigh(
    A: Operator,
    rank: int,
    oversampling: int,
    seed: Sequence[int],
    like: Array | None = None,
    *,
    definite: bool = False,
) -> Factor:
    """Algorithm 2: the leading `rank` eigenpairs of a symmetric A (n, n), by magnitude; O(n² k).

    Exact where rank + oversampling reaches n. `like` gives library, device and floating dtype where A is
    an operator. `definite` says that A is positive semi-definite: eigenvalues below zero are rounding.
    """
    if rank < 1 or oversampling < 0:
        raise ParameterError(f"rank={rank} must be 1 or more and oversampling={oversampling} 0 or more")
    like = A if like is None else like
    xp = namespace(like)
    n, size = A.shape[0], rank + oversampling
    if size >= n:
        S, V = eigh(_symmetric(A @ eye(n, like)), "the kernel matrix")
        return truncate(S, V, rank, definite)
    Q = range_finder(A, size, seed, like)  # step 3
    B = xp.matrix_transpose(Q) @ (A @ Q)  # step 4
    S, V = eigh(_symmetric(B), "the kernel matrix")  # step 5
    small = truncate(S, V, rank, definite)
    return Factor(Q @ small.U, small.S)  # step 6


@dataclass(frozen=True)
class Bordered:
    """[[U S Uᵀ, B], [Bᵀ, C]], the K̄ of Algorithm 3, applied without being formed."""

    factor: Factor
    B: Array
    C: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(n + b, n + b)."""
        n = self.B.shape[0] + self.C.shape[0]
        return n, n

    def __matmul__(self, other: Array) -> Array:
        """Apply to (n + b, m), eq. (4) of the paper; O(n (k + b) m)."""
        xp = namespace(self.B)
        n, U = self.B.shape[0], self.factor.U
        top, bottom = other[:n, :], other[n:, :]
        old = U @ (self.factor.S[:, None] * (xp.matrix_transpose(U) @ top))
        return xp.concat([old + self.B @ bottom, xp.matrix_transpose(self.B) @ top + self.C @ bottom], axis=0)


def bordered_eigh(
    factor: Factor, B: Array, C: Array, rank: int, oversampling: int, seed: Sequence[int]
) -> Factor:
    """Algorithm 3 as printed: factor K̄, which keeps B (n, b) whole beside the truncated past.

    K̄ is indefinite, even where K is positive semi-definite, if B leaves the span of the past's U (docs/note.md).
    """
    return randomized_eigh(Bordered(factor, B, C), rank, oversampling, seed, like=B)


@dataclass(frozen=True)
class Step:
    """One step of Algorithm 3: the new basis is [U·top; bottom], its eigenvalues S.

    A factor that is computed from scratch is a step from no rows: `top` has no row then.

    Attributes
    ----------
    top : (k, r), bottom : (b, r), S : (r,)
    """

    top: Array
    bottom: Array
    S: Array

    @classmethod
    def from_scratch(cls, factor: Factor) -> Step:
        """Return the step from no rows to a factor."""
        return cls(double(factor.U[:0, :]), factor.U, factor.S)

    def basis(self, U: Array) -> Array:
        """Return the whole new basis (n + b, r) from the old one (n, k); O(n k r). Algorithm 3, step 6."""
        top, bottom = cast(self.top, U.dtype), cast(self.bottom, U.dtype)
        pieces = in_parallel(lambda r: U[r, :] @ top, row_parts(U.shape[0], U), U)
        return namespace(U).concat([*pieces, bottom], axis=0)

    def project(self, projected: Array, y: Array) -> Array:
        """Return U'ᵀ[y_old; y] (r, q) from Uᵀy_old (k, q) and y (b, q)."""
        transpose = namespace(y).matrix_transpose
        return transpose(self.top) @ projected + transpose(double(self.bottom)) @ y


def sequential_step(
    S: Array,
    UtB: Array,
    C: Array,
    rank: int,
    oversampling: int,
    seed: Sequence[int],
    *,
    definite: bool = False,
) -> Step:
    """Algorithm 3 on the projection of K onto span{[U; 0], [0; I]}.

    The core [[S, UᵀB], [BᵀU, C]] is a compression of K itself, so it is positive semi-definite where K is
    and S = UᵀKU stays exact from step to step.

    Parameters
    ----------
    S : (k,), UtB : (k, b), C : (b, b)
        In double precision: the core is small, and single-precision rows must not drift apart.
    """
    xp, k = namespace(C), S.shape[0]
    top = xp.concat([diagonal_matrix(S), UtB], axis=1)
    core = xp.concat([top, xp.concat([xp.matrix_transpose(UtB), C], axis=1)], axis=0)
    found = randomized_eigh(finite(core, "the kernel"), rank, oversampling, seed, definite=definite)
    return Step(found.U[:k, :], found.U[k:, :], found.S)


def pivoted_cholesky(
    column: Callable[[int], Array], diagonal: Array, rank: int, tolerance: float, seed: Sequence[int] | None
) -> Factor:
    """Partial Cholesky factor of a positive semi-definite matrix, pivots found on the way.

    Parameters
    ----------
    column : callable
        Returns column i of the matrix, shape (n,).
    diagonal : (n,)
        The diagonal of the matrix.
    rank : int
        At most so many pivots.
    tolerance : float
        Stop when no residual diagonal entry is above tolerance · max(diagonal).
    seed : sequence of int or None
        Draw each pivot in proportion to the residual diagonal (randomly pivoted Cholesky), or, for None,
        take the largest.
    """
    n = diagonal.shape[0]
    rng = None if seed is None else np.random.default_rng(list(seed))
    residual = to_host(diagonal).astype(np.float64)
    threshold = tolerance * float(residual.max()) if n else 0.0
    F = empty((n, min(rank, n)), diagonal)
    pivots: list[int] = []
    while len(pivots) < F.shape[1]:
        open_rows = np.where(residual > threshold, residual, 0.0)
        if not open_rows.any():
            break
        cumulative = open_rows.cumsum()
        i = (
            int(open_rows.argmax())
            if rng is None
            else int(cumulative.searchsorted(rng.random() * cumulative[-1], "right"))
        )
        t = len(pivots)
        g = column(i) - F[:, :t] @ F[i, :t]
        residual[i] = 0.0
        if not float(g[i]) > threshold:  # the running diagonal had drifted; the entry itself decides
            continue
        g = g / float(g[i]) ** 0.5
        F[:, t] = g
        pivots.append(i)
        residual = np.maximum(residual - to_host(g).astype(np.float64) ** 2, 0.0)
    return Factor(F[:, : len(pivots)], asarray_like(np.ones(len(pivots)), diagonal), tuple(pivots))


@dataclass(frozen=True)
class Complement:
    """An orthonormal basis whose first m axes span given directions: the symmetric reflection I − Y T Yᵀ.

    Attributes
    ----------
    Y : (r, m), T : (m, m)
    """

    Y: Array
    T: Array

    @classmethod
    def of(cls, directions: Array) -> Complement:
        """Return the reflection that takes the first m axes to the span of `directions` (r, m); O(r m²).

        With Q an orthonormal basis of the span, turned so that its top block is −H, H positive
        semi-definite, Y = [I; 0] − Q and YᵀY = 2(I + H): never singular.
        """
        xp, (r, m) = namespace(directions), directions.shape
        Q = xp.linalg.qr(directions, mode="reduced")[0]
        U, s, Wt = xp.linalg.svd(Q[:m, :])
        Q = -1.0 * (Q @ xp.matrix_transpose(U @ Wt))
        Y = xp.concat([eye(m, Q), zeros((r - m, m), Q)], axis=0) - Q
        return cls(Y, (U / (1.0 + s)[None, :]) @ xp.matrix_transpose(U))

    def turn(self, F: Array) -> Array:
        """Return the rows of F (n, r) in the new axes; O(n r m)."""
        return less_product(F, product(F, self.Y) @ self.T, namespace(F).matrix_transpose(self.Y))

    def rows(self, F: Array) -> Array:
        """Return the rows of F (n, r) in the basis of the complement; (n, r − m), O(n r m)."""
        m = self.Y.shape[1]
        return less_product(
            F[:, m:], product(F, self.Y) @ self.T, namespace(F).matrix_transpose(self.Y[m:, :])
        )

    def both(self, A: Array) -> Array:
        """Return a symmetric A (r, r) in the new axes; O(r² m)."""
        xp, Y = namespace(A), self.Y
        W = product(A, Y) @ self.T
        W = W - 0.5 * (Y @ (self.T @ (xp.matrix_transpose(Y) @ W)))
        return less_product(A, xp.concat([W, Y], axis=1), xp.matrix_transpose(xp.concat([Y, W], axis=1)))


def truncate(S: Array, V: Array, rank: int, definite: bool = False) -> Factor:
    """Keep the `rank` eigenpairs of largest magnitude, none that is zero to rounding or, if definite, below."""
    xp = namespace(S)
    magnitude = S if definite else xp.abs(S)
    order = xp.argsort(-magnitude)[: min(rank, S.shape[0])]
    floor = eps(S) * S.shape[0] * float(xp.max(magnitude)) if S.shape[0] else 0.0
    kept = int(xp.sum(xp.astype(xp.take(magnitude, order) > floor, xp.int64)))
    order = order[:kept]
    return Factor(_signed(xp.take(V, order, axis=1)), xp.take(S, order))


def _signed(V: Array) -> Array:
    """Return eigenvectors (n, r) whose largest entry is positive: LAPACK's signs differ between machines.

    The next step draws its test matrix in these coordinates, so that another sign would be another draw.
    """
    xp = namespace(V)
    if not V.shape[0]:
        return V
    at = xp.argmax(xp.abs(V), axis=0)
    sign = xp.sign(xp.take_along_axis(V, at[None, :], axis=0))
    return V * xp.where(sign == 0, xp.ones_like(sign), sign)


def _symmetric(A: Array) -> Array:
    return 0.5 * (A + namespace(A).matrix_transpose(A))
