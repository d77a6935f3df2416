"""FirstRows: rows that are kept whole while they are too few to settle on units, kernel and basis."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .._arrays import Array, joined
from ..row_weights import joined_weights


@dataclass(frozen=True)
class FirstRows:
    """The rows so far, X (n, d), y (n, q), weights (n,), while they are too few to settle on units, kernel and basis.

    Attributes
    ----------
    estimating : bool
        Too few to tune on: amplitude and noise are estimated from them, and each batch starts anew.
    gathering : bool
        Too few for the inducing points of `rgp`, which is the exact GP until then.
    """

    X: Array
    y: Array
    estimating: bool
    gathering: bool
    weights: Array | None = None

    def followed_by(self, X: Array, y: Array, weights: Array | None) -> FirstRows:
        """Return these rows and those that came after them, X (b, d), y (b, q) and weights (b,)."""
        both = joined_weights([(self.weights, self.X), (weights, X)])
        return replace(self, X=joined([self.X, X]), y=joined([self.y, y]), weights=both)
