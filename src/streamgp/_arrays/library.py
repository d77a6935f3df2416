"""Namespaces, devices, and arrays made, moved, checked and copied, whatever library they are of."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import array_api_compat as compat
import array_api_compat.numpy as compat_numpy
import numpy as np

from ..errors import NumericalError
from .memory import LARGEST, RECYCLED, memory

Array: TypeAlias = Any
Namespace: TypeAlias = Any

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


def on_host(x: Array) -> bool:
    """Tell whether an array lies in the host's memory, so that `to_host` costs nothing."""
    return type(x) is np.ndarray or "cpu" in str(compat.device(x)).lower()


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
        return memory.array(shape, like.dtype)
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
