"""Products, factorisations and triangular solves, and the threads that they run on.

State of the process, rather than of a model:

- the number of threads of every BLAS library (`one_blas_thread`). It is one while a batch is learned or predicted and
  restored afterwards. NumPy's and SciPy's wheels each bring an OpenBLAS whose idle threads spin against those of the
  other, of this module and of other processes: two streams on two cores were a hundred times slower. A BLAS library
  has one setting for the whole process, so concurrent callers share one counter (`_limit_depth`); the last one to
  leave restores. What this buys: experiments/speed/process_state.py.
- a pool of threads (`_pool`) for large products and solves, which wait without spinning (`in_parallel`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, TypeVar

import array_api_compat as compat
import numpy as np
from threadpoolctl import ThreadpoolController

from ..errors import NumericalError
from . import lapack
from .library import Array, asarray_like, copied, empty, eye, finite, namespace, to_host

T = TypeVar("T")

# Products and solves of at least this many multiplications are shared among the cores.
MIN_SHARED = 2**23
# Minimum width of the panels in which other libraries compute half of a symmetric or triangular product.
MIN_PANEL = 512


# Products


def product(left: Array, right: Array) -> Array:
    """Return left · right for matrices of one dtype, on all cores if it is large enough."""
    if type(left) is not np.ndarray or left.dtype != right.dtype:
        return left @ right
    out = empty((left.shape[0], right.shape[1]), left)
    if out.size * left.shape[1] < MIN_SHARED:
        return np.matmul(left, right, out=out)
    if left.shape[0] < right.shape[1]:
        in_parallel(
            lambda c: np.matmul(left, right[:, c], out=out[:, c]), halves(right.shape[1], 2**20), left
        )
    else:
        in_parallel(lambda r: np.matmul(left[r, :], right, out=out[r, :]), halves(left.shape[0], 2**20), left)
    return out


def less_product(x: Array, left: Array, right: Array) -> Array:
    """Return x − left · right, in new memory."""
    if type(x) is not np.ndarray:
        return x - left @ right
    out = product(left, right)
    return np.subtract(x, out, out=out)


def einsum(subscripts: str, *arrays: Array) -> Array:
    """Return Einstein's sum as NumPy defines it; the standard has none: a library without one sums on the host."""
    if type(arrays[0]) is np.ndarray:
        return np.einsum(subscripts, *arrays)
    own = getattr(namespace(*arrays), "einsum", None)
    if own is None:
        return asarray_like(np.einsum(subscripts, *(to_host(v) for v in arrays)), arrays[0])
    return own(subscripts, *arrays)


def gram(rows: Array) -> Array:
    """Return FᵀF, shape (r, r), of an (n, r) matrix.

    NumPy recognises the symmetric product of a tall matrix and computes half of it. For a wide one, two threads that
    compute all of it are faster than one that computes half.
    """
    if type(rows) is not np.ndarray:
        return _gram_in_panels(rows)
    if rows.shape[0] < rows.shape[1]:
        return product(rows.T, rows)
    return np.matmul(rows.T, rows, out=empty((rows.shape[1], rows.shape[1]), rows))


def _gram_in_panels(rows: Array) -> Array:
    """Return FᵀF: of each panel only what is on and below its diagonal block; the rest is mirrored."""
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
    """Return left · Lᵀ for a lower triangular L (r, r), skipping zero blocks on libraries other than NumPy."""
    if type(left) is np.ndarray:
        return product(left, lower.T)
    xp, parts = namespace(left), _panels(lower.shape[0])
    if len(parts) == 1:
        return product(left, xp.matrix_transpose(lower))
    out = empty((left.shape[0], lower.shape[0]), left)
    for part in parts:
        out[:, part] = left[:, : part.stop] @ xp.matrix_transpose(lower[part, : part.stop])
    return out


def _panels(n: int) -> list[slice]:
    """Return at most eight panels of n columns, MIN_PANEL wide or more; narrower ones save little and run slower."""
    return slices(n, max(MIN_PANEL, -(-n // 8)))


# Factorisations and solves


def cholesky(matrix: Array, what: str, ridge: float = 0.0) -> Array:
    """Return the lower Cholesky factor of an (r, r) matrix + ridge·I, or raise NumericalError naming `what`."""
    if type(matrix) is np.ndarray:
        # LAPACK reads columns: its lower triangle is the upper one of the copy, and a symmetric matrix has both.
        factor = copied(matrix).T
        if ridge:
            np.einsum("ii->i", factor)[...] += ridge
        info = lapack.potrf(factor) if matrix.size else 0
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


def inverse_from(factor: np.ndarray, what: str) -> np.ndarray:
    """Return the inverse of the matrix (r, r) that has this lower Cholesky factor."""
    half = np.array(factor, order="F")
    if lapack.potri(half):
        raise NumericalError(f"{what} cannot be inverted")
    return np.asarray(half + np.tril(half, -1).T)  # its upper triangle was that of the factor, zero


def eigh(matrix: Array, what: str) -> tuple[Array, Array]:
    """Return eigenvalues (r,) in ascending order and eigenvectors (r, r) of a symmetric matrix."""
    values, vectors = namespace(matrix).linalg.eigh(finite(matrix, what))
    return values, vectors


def solve_lower(factor: Array, right: Array, *, transpose: bool = False, rows: bool = False) -> Array:
    """Return the solution y of L y = b, or of Lᵀ y = b (`transpose`), for a lower triangular L (r, r); O(m r²).

    b and y have shape (r, m), or (m, r) with `rows`: then each row is a right-hand side, and y = b·L⁻ᵀ.
    """
    xp = namespace(factor)
    if rows:
        right = xp.matrix_transpose(right)
    if not compat.is_numpy_array(factor):
        triangle = xp.matrix_transpose(factor) if transpose else factor
        if compat.is_torch_array(factor):
            out = xp.linalg.solve_triangular(triangle, right, upper=transpose)
        else:
            out = xp.linalg.solve(triangle, right)
    elif right.size == 0:
        out = right.copy()
    else:
        if factor.dtype != right.dtype:
            dtype = np.result_type(factor, right)
            factor, right = factor.astype(dtype), right.astype(dtype)
        # LAPACK reads columns: a C-ordered L is, to it, the upper triangle Lᵀ. In whichever order `right` is stored,
        # solving from the left or from the right needs no transposed copy of it.
        lower = bool(factor.flags.f_contiguous)
        from_right = not right.flags.f_contiguous
        out = copied(right if from_right else right.T)  # overwritten by the solution
        solve = partial(
            lapack.trsm,
            factor if lower else factor.T,
            from_right=from_right,
            lower=lower,
            transposed=(transpose == lower) != from_right,
        )
        n_right = right.shape[1]
        if from_right or n_right * factor.size < MIN_SHARED:
            solve(out.T)
        else:
            in_parallel(lambda part: solve(out[part, :].T), halves(n_right, 2**20), factor)
        out = out if from_right else out.T
    return xp.matrix_transpose(out) if rows else out


# Threads


@lru_cache(maxsize=1)
def _blas_libraries() -> list[tuple[Any, Callable[..., None]]]:
    """Return threadpoolctl's controller of each BLAS library, and how to release it; the lookup takes 0.6 ms.

    threadpoolctl obeys only the thread that first set a library's threads, until that is released.
    """
    return [
        (library, getattr(library, "clear_controlling_thread", lambda force: None))
        for library in ThreadpoolController().lib_controllers
        if library.user_api == "blas"
    ]


# Process-wide; see the docstring of the module.
_limit_lock = threading.Lock()
_limit_depth = 0
_threads_before: list[int] = []


@contextmanager
def one_blas_thread(like: Array = None) -> Iterator[None]:
    """Limit every BLAS library to one thread, and restore the limits when the last concurrent caller leaves.

    Does nothing if `like` is an array of another library, which has threads of its own. Without `like` the limit always
    holds, as where the host works for a device.
    """
    global _limit_depth
    if not (like is None or compat.is_numpy_array(like)):
        yield
        return
    with _limit_lock:
        if _limit_depth == 0:
            _threads_before[:] = [library.num_threads for library, _ in _blas_libraries()]
            for library, release in _blas_libraries():
                release(force=True)
                library.set_num_threads(1)
                release(force=True)
        _limit_depth += 1
    try:
        yield
    finally:
        with _limit_lock:
            _limit_depth -= 1
            if _limit_depth == 0:
                for (library, release), before in zip(_blas_libraries(), _threads_before, strict=True):
                    release(force=True)
                    library.set_num_threads(before)
                    release(force=True)


@lru_cache(maxsize=1)
def _pool(n_workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_workers, thread_name_prefix="streamgp")


# Whether this thread works on a part of `in_parallel`: then it must not wait for the pool that it belongs to.
_inside = threading.local()


def _after_fork() -> None:
    """Replace the pool and the lock: threads do not survive a fork, and a lock that one held is never released."""
    global _limit_lock, _limit_depth
    _pool.cache_clear()
    _limit_lock, _limit_depth = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def in_parallel(task: Callable[[slice], T], parts: list[slice], like: Array) -> list[T]:
    """Return task(part) for each part, in order; on all cores if `like` is a NumPy array.

    The parts must not depend on the number of cores: then neither do the results. Other libraries have
    their own parallelism and are best given one part.
    """
    if len(parts) == 1 or not compat.is_numpy_array(like) or getattr(_inside, "part", False):
        return [task(part) for part in parts]
    n_workers = workers()
    if n_workers == 1:
        return [task(part) for part in parts]

    def marked(part: slice) -> T:
        _inside.part = True
        try:
            return task(part)
        finally:
            _inside.part = False

    # The calling thread takes the first part itself, since waking another one takes time.
    others = [_pool(n_workers).submit(marked, part) for part in parts[1:]]
    return [marked(parts[0]), *(future.result() for future in others)]


@contextmanager
def in_one_thread() -> Iterator[None]:
    """Let this thread do all parts of `in_parallel` itself: another that needs the pool does not wait for it."""
    before, _inside.part = getattr(_inside, "part", False), True
    try:
        yield
    finally:
        _inside.part = before


def workers() -> int:
    """Return the number of threads for `in_parallel`: the cores of this process, or OMP_NUM_THREADS if fewer."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores(), int(limit) if limit.isdigit() and limit != "0" else cores()))


def cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def slices(n_rows: int, size: int) -> list[slice]:
    """Return consecutive slices of at most `size` rows that cover n_rows."""
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]


def halves(n: int, largest: int) -> list[slice]:
    """Return an even number of equal slices of at most `largest` that cover n, so that two cores finish together."""
    return slices(n, -(-n // (2 * -(-n // (2 * largest)))))


def row_parts(n_rows: int, like: Array) -> list[slice]:
    """Return the parts of a tall matrix's rows for `in_parallel`: one part if it is small or not a NumPy array."""
    if n_rows < 1024 or not compat.is_numpy_array(like):
        return [slice(0, n_rows)]
    return halves(n_rows, 4096)
