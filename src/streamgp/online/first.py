"""FirstRows: rows that are kept whole while they are too few to settle on units, kernel and basis."""

from __future__ import annotations

from dataclasses import dataclass

from .._arrays import Array


@dataclass(frozen=True)
class FirstRows:
    """The rows so far, X (n, d) and y (n, q), while they are too few to settle on units, kernel and basis.

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
