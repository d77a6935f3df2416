"""Array namespaces and devices; creating, converting, moving and copying arrays of any library.

Two things here are state of the process rather than of a model:

- recycled buffers (`_buffers`, used by `empty`). NumPy returns large arrays to the operating system when they are
  dropped and gets fresh pages for the next ones; at rank 500 the page faults of a batch cost more than its
  arithmetic. The last few buffers are kept and used again. They are shared by all models of the process because
  the next array of the same size may belong to any of them. What this buys: experiments/speed/process_state.py.
- deferred checks (`_deferred`, used by `watch`, `fetch` and `settle`), one list per thread. A check of values that
  are still on a device would make the host wait for it; the check runs when the host waits anyway. The list belongs
  to the thread because it is emptied before the call that filled it (partial_fit, predict) returns.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import array_api_compat as compat
import array_api_compat.numpy as compat_numpy
import numpy as np

from ..errors import NumericalError

Array: TypeAlias = Any
Namespace: TypeAlias = Any


# Namespaces and places

# Namespace of each array type seen so far: `compat.array_namespace` is too slow for thousands of calls a second.
_namespaces: dict[type, Namespace] = {np.ndarray: compat_numpy}


def namespace(*arrays: Array) -> Namespace:
    """Return the array API namespace that the arrays share."""
    kind = type(arrays[0])
    known = _namespaces.get(kind)
    if known is not None and (len(arrays) == 1 or all(type(x) is kind for x in arrays)):
        return known
    found = compat.array_namespace(*arrays)
    if all(type(x) is kind for x in arrays):
        _namespaces[kind] = found
    return found


def is_foreign(x: object) -> bool:
    """Return whether x is an array of a library other than NumPy (torch, CuPy, array_api_strict, …)."""
    return type(x) is not np.ndarray and bool(compat.is_array_api_obj(x)) and not compat.is_numpy_array(x)


def on_host(x: Array) -> bool:
    """Return whether an array is in host memory, so that `to_host` needs no transfer."""
    return type(x) is np.ndarray or "cpu" in str(compat.device(x)).lower()


def same_place(x: Array, like: Array) -> bool:
    """Return whether x is of the library and on the device of `like`."""
    return namespace(x) is namespace(like) and compat.device(x) == compat.device(like)


# Conversions


def asarray_like(values: object, like: Array, dtype: Any = None) -> Array:
    """Return host values as an array of the library, device and (unless given) dtype of `like`."""
    host = np.array(values, dtype=np.float64)
    dtype = like.dtype if dtype is None else dtype
    if type(like) is np.ndarray:
        return host.astype(dtype, copy=False)
    return namespace(like).asarray(host, dtype=dtype, device=compat.device(like))


def to_host(x: Array) -> np.ndarray:
    """Return an array of any library as a NumPy array; a NumPy array is returned as it is."""
    if type(x) is np.ndarray:
        return x
    if compat.is_numpy_array(x):
        out: np.ndarray = x
    elif compat.is_torch_array(x):
        out = x.detach().cpu().numpy()
    elif compat.is_cupy_array(x):
        out = x.get()
    else:
        out = np.asarray(x)
    return out


def cast(x: Array, dtype: Any) -> Array:
    """Return x in the given dtype, without a copy where none is needed."""
    return x if x.dtype == dtype else namespace(x).astype(x, dtype)


def double(x: Array) -> Array:
    """Return x in float64 of the same library, without a copy where none is needed."""
    xp = np if type(x) is np.ndarray else namespace(x)
    return x if x.dtype == xp.float64 else xp.astype(x, xp.float64)


def eps(x: Array) -> float:
    """Return the spacing of floating point numbers at 1 for the dtype of x."""
    return float(namespace(x).finfo(x.dtype).eps)


# Deferred checks (process-wide, one list per thread; see the docstring of the module)


class _Deferred(threading.local):
    def __init__(self) -> None:
        self.checks: list[tuple[Array, Callable[[np.ndarray], None]]] = []


_deferred = _Deferred()


def watch(values: Array, check: Callable[[np.ndarray], None]) -> None:
    """Call check(values), values (n,) in float64, when the host next waits for the device: in `fetch` or `settle`."""
    _deferred.checks.append((values, check))


def fetch(value: Array) -> float:
    """Return one number from the device, and run all deferred checks on values of the same transfer."""
    if not _deferred.checks:
        return float(value)
    checks, _deferred.checks = _deferred.checks, []
    xp = namespace(value)
    host = to_host(xp.concat([double(xp.reshape(value, (1,))), *(v for v, _ in checks)]))
    start = 1
    for values, check in checks:
        check(host[start : start + values.shape[0]])
        start += values.shape[0]
    return float(host[0])


def settle(*, forget: bool = False) -> None:
    """Run the checks that are still deferred; `forget` discards them instead, for a batch that failed."""
    if _deferred.checks and not forget:
        fetch(_deferred.checks[0][0][0])
    _deferred.checks = []


# New arrays

# NumPy arrays of at least MIN_RECYCLED_BYTES and at most MAX_RECYCLED_BYTES are made in recycled buffers.
MIN_RECYCLED_BYTES = 2**18
MAX_RECYCLED_BYTES = 2**24
# At most this many buffers are kept, and at most this many bytes in all of them together.
MAX_BUFFERS = 24
MAX_BUFFER_BYTES = 2**27

# Process-wide; see the docstring of the module. A buffer is free when only this list refers to it: every array in it,
# and every view of such an array, refers to the buffer.
_buffers: list[np.ndarray] = []
_buffers_lock = threading.Lock()


def empty(shape: tuple[int, ...], like: Array) -> Array:
    """Return an array with arbitrary entries, of the library, device and dtype of `like`; large ones are recycled."""
    if type(like) is not np.ndarray:
        return namespace(like).empty(shape, dtype=like.dtype, device=compat.device(like))
    size = math.prod(shape) * like.itemsize
    if not MIN_RECYCLED_BYTES <= size <= MAX_RECYCLED_BYTES:
        return np.empty(shape, like.dtype)
    with _buffers_lock:
        for i in range(len(_buffers)):
            # Two references: the list's and the argument's.
            if size <= _buffers[i].nbytes <= 2 * size and sys.getrefcount(_buffers[i]) == 2:
                return np.ndarray(shape, like.dtype, _buffers[i])
        # An eighth more than asked for, since a model that grows asks for a little more each time.
        _buffers.append(np.empty(size + size // 8, dtype=np.uint8))
        del _buffers[:-MAX_BUFFERS]
        while sum(b.nbytes for b in _buffers) > MAX_BUFFER_BYTES and len(_buffers) > 1:
            del _buffers[0]
        return np.ndarray(shape, like.dtype, _buffers[-1])


def _after_fork() -> None:
    """Replace what another thread of the parent may have held: its lock would never be released in the child."""
    global _buffers_lock
    _buffers_lock = threading.Lock()
    _buffers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Return zeros of the library, device and dtype of `like`."""
    return namespace(like).zeros(shape, dtype=like.dtype, device=compat.device(like))


def ones(shape: tuple[int, ...], like: Array) -> Array:
    """Return ones of the library, device and dtype of `like`."""
    return namespace(like).ones(shape, dtype=like.dtype, device=compat.device(like))


def eye(n: int, like: Array) -> Array:
    """Return the (n, n) identity of the library, device and dtype of `like`."""
    return namespace(like).eye(n, dtype=like.dtype, device=compat.device(like))


def index(values: Sequence[int], like: Array) -> Array:
    """Return an index array of the library and device of `like`."""
    xp = namespace(like)
    return xp.asarray(list(values), dtype=xp.int64, device=compat.device(like))


def diagonal_matrix(d: Array) -> Array:
    """Return the (r, r) matrix with d, shape (r,), on its diagonal."""
    return eye(d.shape[0], d) * d[None, :]


def standard_normal(seed: Sequence[int], shape: tuple[int, ...], like: Array) -> Array:
    """Return normal draws made on the host, so that every library and every replay gets the same numbers."""
    return asarray_like(np.random.default_rng(list(seed)).standard_normal(shape), like)


def copied(x: Array) -> Array:
    """Return a copy of an array."""
    if type(x) is not np.ndarray:
        return namespace(x).asarray(x, copy=True)
    out = empty(x.shape, x)
    np.copyto(out, x)
    return out


def joined(parts: Sequence[Array]) -> Array:
    """Return arrays concatenated along their first axis."""
    if any(type(x) is not np.ndarray for x in parts):
        return namespace(*parts).concat(list(parts), axis=0)
    return np.concatenate(parts, out=empty((sum(x.shape[0] for x in parts), *parts[0].shape[1:]), parts[0]))


# Entries


def in_place(name: str, x: Array) -> Array:
    """Return the elementwise function `name` of x, written into the memory of x where the library can."""
    if type(x) is np.ndarray:
        return getattr(np, name)(x, out=x)
    xp = namespace(x)
    if compat.is_torch_array(x) or compat.is_cupy_array(x):
        return getattr(xp, name)(x, out=x)
    return getattr(xp, name)(x)


def clip_below(x: Array, low: float) -> Array:
    """Return x with entries below `low` raised to it, written into the memory of x where the library can."""
    if type(x) is np.ndarray:
        return np.maximum(x, low, out=x)
    if compat.is_torch_array(x):
        return x.clamp_(min=low)
    return namespace(x).clip(x, min=low)


def top(values: Array, k: int) -> Array:
    """Return the places (m, k) of the k largest of each row of values (m, n) of a library other than NumPy."""
    xp, n = namespace(values), values.shape[1]
    if compat.is_torch_array(values):
        return xp.topk(values, k, dim=1, sorted=False).indices
    return xp.argsort(values, axis=1)[:, n - k :]


def clipped(x: Array, low: float, high: float) -> Array:
    """Return x with entries held between two bounds, written into the memory of x where the library can."""
    if type(x) is np.ndarray:
        return np.minimum(np.maximum(x, low, out=x), high, out=x)
    return namespace(x).clip(x, min=low, max=high)


def finite(x: Array, what: str) -> Array:
    """Return x as it is, or raise NumericalError naming `what` if an entry is not finite."""
    xp = namespace(x)
    if not bool(xp.all(xp.isfinite(x))):
        raise NumericalError(
            f"{what} has entries beyond the range of {x.dtype}; scale X or y, or change the kernel"
        )
    return x
