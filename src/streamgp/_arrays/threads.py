"""One thread for every BLAS pool, and threads of our own for what is large."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import array_api_compat as compat
from threadpoolctl import ThreadpoolController

from .library import Array, is_foreign

T = TypeVar("T")


@lru_cache(maxsize=1)
def _blas_pools() -> list[Any]:
    """All BLAS pools of the process, as threadpoolctl's controllers. Looking them up costs 0.6 ms."""
    return [p for p in ThreadpoolController().lib_controllers if p.user_api == "blas"]


_limit_lock = threading.Lock()
_limit_depth = 0
_limit_before: list[tuple[Any, int]] = []


@contextmanager
def one_blas_thread(like: Array = None) -> Iterator[None]:
    """Hold every BLAS pool at one thread; what is large is shared by `in_parallel`.

    Nothing for arrays `like` those of another library, which has threads of its own; without `like` always, as where
    the host works for a device.

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
