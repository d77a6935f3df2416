"""Squared distances by one matrix product, and where that is not accurate enough, by differences."""

from __future__ import annotations

from dataclasses import dataclass

from .._arrays import Array, clip_below, empty, eps, fetch, fill_diagonal, in_place, namespace, product
from ..errors import InputError

# Pairs nearer than this share of their squared norm lose digits that a square root would show.
NEAR = 1e-6


def centred(X: Array, Y: Array | None, scale: Array | None) -> tuple[Array, Array]:
    """Move both sets to the mean of the smaller one and divide by `scale`, (d,): distances stay, digits do too."""
    xp = namespace(X)
    other = X if Y is None else Y
    smaller = other if 0 < other.shape[0] <= X.shape[0] or X.shape[0] == 0 else X
    origin = xp.mean(smaller, axis=0) if smaller.shape[0] else 0.0
    A = X - origin
    B = A if Y is None else Y - origin
    if scale is not None:
        A *= 1.0 / scale
        if Y is not None:
            B *= 1.0 / scale
    return A, B


def squared(A: Array, B: Array, *, itself: bool, factor: float = 1.0) -> Array:
    """Give factor · ‖a − b‖² between rows of A (n, d) and B (m, d); shape (n, m).

    The augmented product [A, ‖A‖², 1]·[−2B, 1, ‖B‖²]ᵀ writes the result once. Its error is about
    eps·(‖a‖² + ‖b‖²); where that would reach √eps/10 the differences are taken one feature at a time.
    """
    xp = namespace(A, B)
    a2, b2 = xp.vecdot(A, A), xp.vecdot(B, B)
    largest = float(xp.max(a2) + xp.max(b2)) if a2.shape[0] and b2.shape[0] else 0.0
    if not largest < float(xp.finfo(A.dtype).max) / 4:
        raise InputError(
            f"the squared distance in length-scales reaches {largest:g}, beyond the range of {A.dtype}; "
            "scale X down or give longer length-scales"
        )
    if eps(A) * largest > 0.1 * eps(A) ** 0.5:
        out = _by_differences(A, B)
        out *= factor
    else:
        left = _beside(A, a2, 1.0)
        right = _beside(-2.0 * factor * B, factor, factor * b2)
        out = product(left, xp.matrix_transpose(right))
    return fill_diagonal(out, 0.0) if itself else out


@dataclass(frozen=True)
class Beforehand:
    """The half of `squared` that hangs on one of the two sets: its rows Z (m, d), moved to `origin` and scaled.

    Attributes
    ----------
    right : (d + 2, m)
        The augmented Z of `squared`.
    largest : float
        The largest squared norm.
    """

    Z: Array
    origin: Array
    inverse: Array
    right: Array
    largest: float

    @classmethod
    def of(cls, Z: Array, scale: Array, factor: float) -> Beforehand:
        """Prepare for factor · ‖(x − z)/scale‖²."""
        xp = namespace(Z)
        origin, inverse = xp.mean(Z, axis=0), 1.0 / scale
        B = (Z - origin) * inverse
        b2 = xp.sum(B * B, axis=1)
        right = xp.matrix_transpose(_beside(-2.0 * factor * B, factor, factor * b2))
        return cls(Z, origin, inverse, right, float(xp.max(b2)))

    def squared(self, X: Array) -> Array | None:
        """Give the squared distances of the rows of X (n, d), shape (n, m); None where differences would be needed."""
        xp = namespace(X)
        A = (X - self.origin) * self.inverse
        a2 = xp.sum(A * A, axis=1)
        if not eps(A) * (fetch(xp.max(a2)) + self.largest) <= 0.1 * eps(A) ** 0.5:
            return None
        return xp.concat([A, a2[:, None], xp.ones_like(a2)[:, None]], axis=1) @ self.right


def _beside(rows: Array, first: Array | float, second: Array | float) -> Array:
    """Give [rows, first, second], shape (n, d + 2)."""
    n, d = rows.shape
    out = empty((n, d + 2), rows)
    out[:, :d], out[:, d], out[:, d + 1] = rows, first, second
    return out


def euclidean(A: Array, B: Array, *, itself: bool) -> Array:
    """Give ‖a − b‖ between rows of A (n, d) and B (m, d), near pairs to full accuracy; shape (n, m)."""
    xp = namespace(A, B)
    sq = squared(A, B, itself=itself)
    near, at = xp.nonzero(sq < NEAR * xp.vecdot(A, A)[:, None])
    if near.shape[0]:
        # A square root turns an error of eps in the square into √eps: take these few by differences.
        difference = xp.take(A, near, axis=0) - xp.take(B, at, axis=0)
        exact = xp.sum(difference * difference, axis=1)
        sq = _scatter(sq, near, at, exact)
    return in_place("sqrt", clip_below(sq, 0.0))


def _by_differences(A: Array, B: Array) -> Array:
    out = (A[:, 0][:, None] - B[:, 0][None, :]) ** 2
    for j in range(1, A.shape[1]):
        out += (A[:, j][:, None] - B[:, j][None, :]) ** 2
    return out


def _scatter(target: Array, rows: Array, columns: Array, values: Array) -> Array:
    xp = namespace(target)
    flat = xp.reshape(target, (-1,))
    index = rows * target.shape[1] + columns
    try:
        flat[index] = values
    except IndexError:  # the standard has no assignment by an index array; one entry at a time then
        for i in range(index.shape[0]):
            flat[int(index[i])] = values[i]
    return xp.reshape(flat, target.shape)
