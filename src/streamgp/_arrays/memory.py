"""Memory that is used again: fresh pages cost more than the arithmetic in them."""

from __future__ import annotations

import math
import os
import sys
import threading

import numpy as np

# NumPy arrays of at least so many bytes, and at most so many, are made in memory that was used before.
RECYCLED = 2**18
LARGEST = 2**24


class Memory:
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


memory = Memory()


def _after_fork() -> None:
    """Let the child make its own: a lock that another thread held stays held."""
    memory.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
