"""Nearest points by one matrix product: exact, and quicker than an index for the tens of thousands that are kept.

−½‖a − b‖² of all pairs is an augmented product. The k largest of a row lie in the k blocks of entries with the largest
maxima, so that only these blocks are looked into.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.spatial.distance import cdist

from .._arrays import Array, namespace, top

# Entries of which the maximum is taken together.
BLOCK = 32
# Points from which the origin and the size of coordinates are taken.
TYPICAL = 128
# Single precision serves while rounding is below this share of a squared length-scale.
ROUNDING = 1e-3
# Coordinates beyond this are held there: their squares stay numbers in single precision.
FARTHEST = 1e15


@dataclass(frozen=True)
class Index:
    """Points prepared for a search.

    Attributes
    ----------
    n : int
        The number of points.
    origin, scale : (d,)
        What coordinates are taken about, and multiplied by.
    right : (n', d + 2)
        Points b as [b, −½‖b‖², 1]; n' is the next multiple of BLOCK, the rest is never near.
    """

    n: int
    origin: np.ndarray
    scale: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, nearness: np.ndarray) -> Self:
        """Prepare the points X (n, d); distances are √Σ nearness_j (x_j − x'_j)²."""
        n, d = X.shape
        some = X[:: max(1, n // TYPICAL)]
        origin = np.median(some, axis=0) if n else np.zeros(d)
        scale = np.sqrt(nearness)
        away = np.clip((some - origin) * scale, -FARTHEST, FARTHEST)
        size = np.median((away**2).sum(axis=1)) if n else 0.0
        single = size * np.finfo(np.float32).eps < ROUNDING
        right = np.zeros((n + -n % BLOCK, d + 2), dtype=np.float32 if single else np.float64)
        right[:n, :d] = np.clip((X - origin) * scale, -FARTHEST, FARTHEST)
        right[:n, d] = -0.5 * np.einsum("ij,ij->i", right[:n, :d], right[:n, :d])
        right[n:, d] = np.finfo(np.float32).min / 4
        right[:, d + 1] = 1.0
        return cls(n, origin, scale, right)

    def closeness(self, X: np.ndarray) -> np.ndarray:
        """Return −½ squared distance from the rows of X (m, d) to each point; (m, n')."""
        m, d = X.shape
        left = np.empty((m, d + 2), dtype=self.right.dtype)
        left[:, :d] = np.clip((X - self.origin) * self.scale, -FARTHEST, FARTHEST)
        left[:, d] = 1.0
        left[:, d + 1] = -0.5 * np.einsum("ij,ij->i", left[:, :d], left[:, :d])
        return np.asarray(left @ self.right.T)


def closeness(X: np.ndarray, points: np.ndarray, nearness: np.ndarray) -> np.ndarray:
    """Return −½ squared distance from the rows of X (m, d) to each of a few points (n, d), without an index; (m, n)."""
    scale = np.sqrt(nearness)
    near, far = (np.clip(v * scale, -FARTHEST, FARTHEST) for v in (X, points))
    return np.asarray(-0.5 * cdist(near, far, "sqeuclidean"))


def places_among(X: Array, points: Array, nearness: Array, k: int) -> Array:
    """Return the places (m, k) of the k points (n, d) nearest to each row of X (m, d), of a library other than NumPy.

    In double precision: a device is quick at it, and need not wait until the host has seen how large coordinates are.
    """
    xp, n, scale = namespace(points), points.shape[0], namespace(points).sqrt(nearness)
    origin = xp.sort(points[:: max(1, n // TYPICAL), :], axis=0)[min(n, TYPICAL) // 2, :]
    left, right = (xp.clip((v - origin) * scale, -FARTHEST, FARTHEST) for v in (X, points))
    half = -0.5 * xp.vecdot(right, right)
    # What is the same for all points, the norm of a row of X, changes no order.
    return top(left @ xp.matrix_transpose(right) + half[None, :], k)


def padded(values: np.ndarray) -> np.ndarray:
    """Return values (m, n) beside −inf, so that the number of columns is a multiple of BLOCK."""
    return np.asarray(np.pad(values, ((0, 0), (0, -values.shape[1] % BLOCK)), constant_values=-np.inf))


def largest(values: np.ndarray, k: int) -> np.ndarray:
    """Return the places of the k largest of each row of values (m, n), n a multiple of BLOCK; (m, k), in any order."""
    m, n = values.shape
    if n <= 2 * k * BLOCK:
        found = np.argpartition(values, n - k, axis=1)[:, n - k :] if k < n else np.tile(np.arange(n), (m, 1))
        return np.asarray(found)
    # A block is every (n/BLOCK)-th entry: maxima of whole rows of a matrix are quick.
    blocks = values.reshape(m, BLOCK, n // BLOCK)
    tops = blocks.max(axis=1)
    some = np.argpartition(tops, n // BLOCK - k, axis=1)[:, n // BLOCK - k :]
    candidates = np.take_along_axis(blocks, some[:, None, :], axis=2).reshape(m, BLOCK * k)
    at = np.argpartition(candidates, BLOCK * k - k, axis=1)[:, BLOCK * k - k :]
    return np.asarray(np.take_along_axis(some, at % k, axis=1) + at // k * (n // BLOCK))
