"""Products, factorisations and triangular solves; those that the array API standard lacks, too."""

from __future__ import annotations

import array_api_compat as compat
import numpy as np
import scipy.linalg

from ..errors import NumericalError
from .library import (
    Array,
    cast,
    copied,
    empty,
    eye,
    finite,
    namespace,
)
from .threads import halves, in_parallel, slices

# Multiplications from which on a product or a solve is shared among the cores.
SHARED = 2**23
# Columns, at least, of the panels in which other libraries do half of a symmetric or triangular product.
PANEL = 512


def product(left: Array, right: Array) -> Array:
    """Give left · right for matrices of one dtype, on all cores if it is large enough."""
    if type(left) is not np.ndarray or left.dtype != right.dtype:
        return left @ right
    out = empty((left.shape[0], right.shape[1]), left)
    if out.size * left.shape[1] < SHARED:
        return np.matmul(left, right, out=out)
    if left.shape[0] < right.shape[1]:
        in_parallel(
            lambda c: np.matmul(left, right[:, c], out=out[:, c]), halves(right.shape[1], 2**20), left
        )
    else:
        in_parallel(lambda r: np.matmul(left[r, :], right, out=out[r, :]), halves(left.shape[0], 2**20), left)
    return out


def less_product(x: Array, left: Array, right: Array) -> Array:
    """Give x − left · right, in new memory."""
    if type(x) is not np.ndarray:
        return x - left @ right
    out = product(left, right)
    return np.subtract(x, out, out=out)


def cholesky(matrix: Array, what: str, ridge: float = 0.0) -> Array:
    """Give the lower Cholesky factor of an (r, r) matrix + ridge·I, or raise NumericalError naming `what`."""
    if type(matrix) is np.ndarray:
        # What is lower to LAPACK, which reads columns, is the upper half of the copy: a symmetric matrix has both.
        factor = copied(matrix).T
        if ridge:
            np.einsum("ii->i", factor)[...] += ridge
        info = 0
        if matrix.size:
            (potrf,) = scipy.linalg.get_lapack_funcs(("potrf",), (factor,))
            factor, info = potrf(factor, lower=1, overwrite_a=1)
        failure: Exception | None = None
        if info or not np.isfinite(factor.diagonal()).all():
            failure = np.linalg.LinAlgError(f"potrf stopped at {info}")
    else:
        try:
            factor = namespace(matrix).linalg.cholesky(
                matrix + ridge * eye(matrix.shape[0], matrix) if ridge else matrix
            )
            return finite(factor, what)
        except (np.linalg.LinAlgError, RuntimeError) as error:
            failure = error
    if failure is not None:
        finite(matrix, what)
        raise NumericalError(
            f"{what} is not positive definite to the precision of {matrix.dtype}; raise the noise"
        ) from failure
    return factor


def eigh(matrix: Array, what: str) -> tuple[Array, Array]:
    """Give eigenvalues (r,) in ascending order and eigenvectors (r, r) of a symmetric matrix."""
    values, vectors = namespace(matrix).linalg.eigh(finite(matrix, what))
    return values, vectors


def solve_lower(factor: Array, right: Array, *, transpose: bool = False) -> Array:
    """Solve L y = b, or Lᵀ y = b, for a lower triangular L (r, r) and b (r, m); O(m r²)."""
    if compat.is_numpy_array(factor):
        if right.size == 0:
            return right.copy()
        (trsm,) = scipy.linalg.get_blas_funcs(("trsm",), (factor, right))
        # LAPACK reads columns: a C-ordered L is, to it, the upper triangle Lᵀ. Whichever way `right`
        # lies in memory, one of these two forms needs no transposed copy of it.
        lower = int(factor.flags.f_contiguous)
        triangle, transposed = factor if lower else factor.T, transpose != (not lower)
        rows = not right.flags.f_contiguous
        trans = int(transposed != rows)
        right = cast(right, np.result_type(factor, right))
        factor = cast(factor, right.dtype)
        out = copied(right if rows else right.T)  # overwritten by the solution

        def solve(part: slice) -> None:
            given = out[:, part].T if rows else out[part, :].T
            trsm(1.0, triangle, given, side=int(rows), lower=lower, trans_a=trans, overwrite_b=1)

        n_right = right.shape[1]
        shared = n_right * factor.size >= SHARED and not rows
        in_parallel(solve, halves(n_right, 2**20) if shared else [slice(0, n_right)], factor)
        return out if rows else out.T
    xp = namespace(factor)
    triangle = xp.matrix_transpose(factor) if transpose else factor
    if compat.is_torch_array(factor):
        return xp.linalg.solve_triangular(triangle, right, upper=transpose)
    return xp.linalg.solve(triangle, right)


def solve_lower_rows(factor: Array, rows: Array) -> Array:
    """Give rows · L⁻ᵀ, shape (b, r): each row of the (b, r) input solved against L."""
    xp = namespace(rows)
    return xp.matrix_transpose(solve_lower(factor, xp.matrix_transpose(rows)))


def gram(rows: Array) -> Array:
    """Give FᵀF, shape (r, r), of an (n, r) matrix; NumPy recognises the symmetric product and does half.

    Of a tall matrix, that is: for a wide one two threads that do all of it are faster than one that does half.
    """
    if type(rows) is not np.ndarray:
        return _gram_in_panels(rows)
    if rows.shape[0] < rows.shape[1]:
        return product(namespace(rows).matrix_transpose(rows), rows)
    return np.matmul(rows.T, rows, out=empty((rows.shape[1], rows.shape[1]), rows))


def _gram_in_panels(rows: Array) -> Array:
    """Give FᵀF: of each panel only what stands on and below its diagonal block; the rest is mirrored."""
    transposed, r = namespace(rows).matrix_transpose(rows), rows.shape[1]
    parts = _panels(r)
    if len(parts) == 1:
        return transposed @ rows
    out = empty((r, r), rows)
    for part in parts:
        below = transposed[part.start :, :] @ rows[:, part]
        out[part.start :, part] = below
        out[part, part.stop :] = namespace(rows).matrix_transpose(below[part.stop - part.start :, :])
    return out


def product_lower(left: Array, lower: Array) -> Array:
    """Give left · Lᵀ for a lower triangular L (r, r), without what is zero where that pays."""
    xp, parts = namespace(left), _panels(lower.shape[0])
    if type(left) is np.ndarray or len(parts) == 1:
        return product(left, xp.matrix_transpose(lower))
    out = empty((left.shape[0], lower.shape[0]), left)
    for part in parts:
        out[:, part] = left[:, : part.stop] @ xp.matrix_transpose(lower[part, : part.stop])
    return out


def _panels(n: int) -> list[slice]:
    """Cut n columns into at most eight panels of PANEL or more: more of them save little and run slower."""
    return slices(n, max(PANEL, -(-n // 8)))
