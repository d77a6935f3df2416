"""The one doorway to array libraries: namespaces, devices, threads and the factorisations the standard lacks.

Nothing else in streamgp asks which library an array comes from. NumPy takes the shortest road to BLAS
and LAPACK; every other library goes through the array API standard.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import array_api_compat as compat
import array_api_compat.numpy as compat_numpy
import numpy as np
import scipy.linalg
from threadpoolctl import ThreadpoolController

from .errors import NumericalError

Array: TypeAlias = Any
Namespace: TypeAlias = Any
T = TypeVar("T")

# Multiplications from which on a product or a solve is shared among the cores.
SHARED = 2**23
# NumPy arrays of at least so many bytes, and at most so many, are made in memory that was used before.
RECYCLED = 2**18
LARGEST = 2**24
# Columns, at least, of the panels in which other libraries do half of a symmetric or triangular product.
PANEL = 512


class _Memory:
    """Buffers for NumPy arrays, taken again once no array lies in them.

    Large arrays come from the system in fresh pages and go back to it when they are dropped: at rank 500
    the page faults of a batch cost more than its arithmetic. A list of the last few buffers is kept, `most` of
    them and `most_bytes` together; one is free when nothing but the list refers to it (a view refers to the
    buffer that it lies in).
    """

    def __init__(self, most: int = 24, most_bytes: int = 2**27) -> None:
        self._buffers: list[np.ndarray] = []
        self._most, self._most_bytes = most, most_bytes
        self._lock = threading.Lock()

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Give an array whose values are whatever was there."""
        size = math.prod(shape) * dtype.itemsize
        with self._lock:
            for i in range(len(self._buffers)):
                # Two references: the list's and the argument's.
                if size <= self._buffers[i].nbytes <= 2 * size and sys.getrefcount(self._buffers[i]) == 2:
                    return np.ndarray(shape, dtype, self._buffers[i])
            # An eighth more than is asked for: a model that fills up asks for a little more each time.
            self._buffers.append(np.empty(size + size // 8, dtype=np.uint8))
            del self._buffers[: -self._most]
            while sum(b.nbytes for b in self._buffers) > self._most_bytes and len(self._buffers) > 1:
                del self._buffers[0]
            return np.ndarray(shape, dtype, self._buffers[-1])


_memory = _Memory()
# The namespace of arrays of each type that was ever seen.
_namespaces: dict[type, Namespace] = {np.ndarray: compat_numpy}


def namespace(*arrays: Array) -> Namespace:
    """Give the array API namespace that the arrays share."""
    # Asked thousands of times a second: the short way.
    kind = type(arrays[0])
    known = _namespaces.get(kind)
    if known is not None and all(type(x) is kind for x in arrays):
        return known
    found = compat.array_namespace(*arrays)
    if all(type(x) is kind for x in arrays):
        _namespaces[kind] = found
    return found


def is_foreign(x: object) -> bool:
    """Tell whether x is an array of a library other than NumPy (torch, CuPy, array_api_strict, …)."""
    return bool(compat.is_array_api_obj(x)) and not compat.is_numpy_array(x)


def asarray_like(values: object, like: Array, dtype: Any = None) -> Array:
    """Bring host values to the library, device and (unless said) dtype of `like`."""
    host = np.array(values, dtype=np.float64)
    if compat.is_numpy_array(like):
        return host.astype(like.dtype if dtype is None else dtype, copy=False)
    return namespace(like).asarray(
        host, dtype=like.dtype if dtype is None else dtype, device=compat.device(like)
    )


def to_host(x: Array) -> np.ndarray:
    """Copy an array of any library to NumPy; NumPy arrays come back as they are."""
    if compat.is_numpy_array(x):
        out: np.ndarray = x
    elif compat.is_torch_array(x):
        out = x.detach().cpu().numpy()
    elif compat.is_cupy_array(x):
        out = x.get()
    else:
        out = np.asarray(x)
    return out


class _Watched(threading.local):
    """Checks of values that are still on a device: made when the host next waits for it anyway."""

    def __init__(self) -> None:
        self.checks: list[tuple[Array, Callable[[np.ndarray], None]]] = []


_watched = _Watched()


def watch(values: Array, check: Callable[[np.ndarray], None]) -> None:
    """Let `check` see values (n,), float64, when a device is next waited for: by `fetch`, or by `settle` at last."""
    _watched.checks.append((values, check))


def fetch(value: Array) -> float:
    """Bring one number to the host, and with it, in one go, all that is watched."""
    if not _watched.checks:
        return float(value)
    checks, _watched.checks = _watched.checks, []
    xp = namespace(value)
    host = to_host(xp.concat([double(xp.reshape(value, (1,))), *(v for v, _ in checks)]))
    at = 1
    for values, check in checks:
        check(host[at : at + values.shape[0]])
        at += values.shape[0]
    return float(host[0])


def settle(*, forget: bool = False) -> None:
    """Make the checks that are still to be made, or `forget` those of a batch that failed."""
    if _watched.checks and not forget:
        fetch(_watched.checks[0][0][0])
    _watched.checks = []


def same_place(x: Array, like: Array) -> bool:
    """Tell whether x lives in the library and on the device of `like`."""
    return namespace(x) is namespace(like) and compat.device(x) == compat.device(like)


def eps(x: Array) -> float:
    """Give the spacing of floating point numbers at 1 for the dtype of x."""
    return float(namespace(x).finfo(x.dtype).eps)


def cast(x: Array, dtype: Any) -> Array:
    """Convert to dtype, without a copy where none is needed."""
    return x if x.dtype == dtype else namespace(x).astype(x, dtype)


def double(x: Array) -> Array:
    """Convert to float64 of the same library."""
    return cast(x, namespace(x).float64)


def empty(shape: tuple[int, ...], like: Array) -> Array:
    """Make an array to be filled, of the library, device and dtype of `like`."""
    if type(like) is np.ndarray and RECYCLED <= math.prod(shape) * like.itemsize <= LARGEST:
        return _memory.array(shape, like.dtype)
    return namespace(like).empty(shape, dtype=like.dtype, device=compat.device(like))


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Make zeros of the library, device and dtype of `like`."""
    return namespace(like).zeros(shape, dtype=like.dtype, device=compat.device(like))


def ones(shape: tuple[int, ...], like: Array) -> Array:
    """Make ones of the library, device and dtype of `like`."""
    return namespace(like).ones(shape, dtype=like.dtype, device=compat.device(like))


def eye(n: int, like: Array) -> Array:
    """Make the identity of the library, device and dtype of `like`."""
    return namespace(like).eye(n, dtype=like.dtype, device=compat.device(like))


def index(values: Sequence[int], like: Array) -> Array:
    """Make an index array beside `like`."""
    xp = namespace(like)
    return xp.asarray(list(values), dtype=xp.int64, device=compat.device(like))


def diagonal_matrix(d: Array) -> Array:
    """Put the entries of d, shape (r,), on the diagonal of an (r, r) matrix."""
    return eye(d.shape[0], d) * d[None, :]


def standard_normal(seed: Sequence[int], shape: tuple[int, ...], like: Array) -> Array:
    """Draw on the host, so that every library and every replay sees the same numbers."""
    return asarray_like(np.random.default_rng(list(seed)).standard_normal(shape), like)


def in_place(name: str, x: Array) -> Array:
    """Apply the elementwise function `name` to x, reusing its memory where the library can."""
    xp = namespace(x)
    if compat.is_numpy_array(x) or compat.is_torch_array(x) or compat.is_cupy_array(x):
        return getattr(xp, name)(x, out=x)
    return getattr(xp, name)(x)


def clip_below(x: Array, low: float) -> Array:
    """Raise entries below `low` to it, reusing the memory of x where the library can."""
    if compat.is_numpy_array(x):
        return np.maximum(x, low, out=x)
    if compat.is_torch_array(x):
        return x.clamp_(min=low)
    return namespace(x).clip(x, min=low)


def fill_diagonal(x: Array, value: float) -> Array:
    """Set the diagonal of a square matrix, reusing its memory where the library can."""
    if compat.is_numpy_array(x):
        np.fill_diagonal(x, value)
        return x
    if compat.is_torch_array(x):
        return x.fill_diagonal_(value)
    xp = namespace(x)
    return xp.where(eye(x.shape[0], x) > 0, asarray_like(value, x), x)


def finite(x: Array, what: str) -> Array:
    """Give x as it is, or raise NumericalError naming `what` where an entry is not finite."""
    xp = namespace(x)
    if not bool(xp.all(xp.isfinite(x))):
        raise NumericalError(f"{what} leaves the range of {x.dtype}; scale X or y, or change the kernel")
    return x


def copied(x: Array) -> Array:
    """Copy an array."""
    if type(x) is not np.ndarray:
        return namespace(x).asarray(x, copy=True)
    out = empty(x.shape, x)
    np.copyto(out, x)
    return out


def joined(parts: Sequence[Array]) -> Array:
    """Put arrays one below the other."""
    if any(type(x) is not np.ndarray for x in parts):
        return namespace(*parts).concat(list(parts), axis=0)
    return np.concatenate(parts, out=empty((sum(x.shape[0] for x in parts), *parts[0].shape[1:]), parts[0]))


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


@lru_cache(maxsize=1)
def _blas_pools() -> list[Any]:
    """All BLAS pools of the process, as threadpoolctl's controllers. Looking them up costs 0.6 ms."""
    return [p for p in ThreadpoolController().lib_controllers if p.user_api == "blas"]


_limit_lock = threading.Lock()
_limit_depth = 0
_limit_before: list[tuple[Any, int]] = []


@contextmanager
def one_blas_thread(like: Array = None) -> Iterator[None]:
    """Hold every BLAS pool at one thread; what is large is shared by `in_parallel`. Nothing for a device's arrays.

    NumPy's and SciPy's wheels each bring an OpenBLAS whose idle threads spin against the other's, against
    threads of our own, and against other processes: two streams on two cores were a hundred times slower.
    Threads of ours wait without spinning.
    """
    global _limit_depth
    if like is not None and is_foreign(like):
        yield
        return
    with _limit_lock:
        if _limit_depth == 0:
            _limit_before[:] = [(pool, pool.num_threads) for pool in _blas_pools()]
            for pool in _blas_pools():
                _set_threads(pool, 1)
        _limit_depth += 1
    try:
        yield
    finally:
        with _limit_lock:
            _limit_depth -= 1
            if _limit_depth == 0:
                for pool, before in _limit_before:
                    _set_threads(pool, before)


def _set_threads(pool: Any, n_threads: int) -> None:
    """Set the threads of a pool from whichever thread this is; threadpoolctl would obey only the first that asked."""
    clear = getattr(pool, "clear_controlling_thread", lambda force: None)
    clear(force=True)
    pool.set_num_threads(n_threads)
    clear(force=True)


def workers() -> int:
    """Count the threads that row blocks may use: the cores given to this process, or OMP_NUM_THREADS."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores(), int(limit) if limit.isdigit() and limit != "0" else cores()))


def cores() -> int:
    """Count the cores given to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def slices(n_rows: int, size: int) -> list[slice]:
    """Cut n_rows into consecutive slices of at most `size` rows; none reaches past the end."""
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]


@lru_cache(maxsize=1)
def _pool(n_workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_workers, thread_name_prefix="streamgp")


# Whether this thread works on a part: what it calls must not wait for the pool that it is in.
_inside = threading.local()


def _after_fork() -> None:
    """Threads do not survive a fork, and a lock that one held stays held: the child makes its own."""
    global _limit_lock, _limit_depth
    _pool.cache_clear()
    _memory.__init__()  # type: ignore[misc]
    _limit_lock, _limit_depth = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def halves(n: int, largest: int) -> list[slice]:
    """Cut n into an even number of equal slices, none over `largest` long: two cores finish together."""
    return slices(n, -(-n // (2 * -(-n // (2 * largest)))))


def in_parallel(task: Callable[[slice], T], parts: list[slice], like: Array) -> list[T]:
    """Apply `task` to each slice, results in order, on all cores for NumPy.

    The parts must not depend on the number of cores: then neither do the results. Other libraries have
    their own parallelism and are best given one part.
    """
    n_workers = workers()
    if len(parts) == 1 or n_workers == 1 or not compat.is_numpy_array(like):
        return [task(part) for part in parts]
    if getattr(_inside, "part", False):
        return [task(part) for part in parts]

    def marked(part: slice) -> T:
        _inside.part = True
        try:
            return task(part)
        finally:
            _inside.part = False

    # The caller's thread takes the first part itself: waking another one takes its time.
    others = [_pool(n_workers).submit(marked, part) for part in parts[1:]]
    return [marked(parts[0]), *(future.result() for future in others)]


def row_parts(n_rows: int, like: Array) -> list[slice]:
    """Cut the rows of a tall matrix for `in_parallel`: one part if small or not NumPy's."""
    if n_rows < 1024 or not compat.is_numpy_array(like):
        return [slice(0, n_rows)]
    return halves(n_rows, 4096)
