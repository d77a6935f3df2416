"""Recent: the last prediction of a state, because a stream learns the rows that it has just predicted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from .._arrays import Array, namespace
from ..gp.features import Pivots
from .neighbours import Correction
from .stored import Store

if TYPE_CHECKING:
    from .base import Prediction

# From rows, their features if known, and whether variances are wanted.
Compute: TypeAlias = Callable[[Array, Array | None, bool], "Prediction"]
# Of more rows than this nothing is kept.
MOST_ROWS = 512


class Recent:
    """Cache of the last prediction: a stream learns the rows that it has just predicted.

    Not part of a state: it is empty in a copy or a pickle, and any thread may fill it.
    """

    def __init__(self) -> None:
        self._last: tuple[Array, Prediction] | None = None
        self._corrected: tuple[Array, Store, Correction] | None = None

    def predict(self, X: Array, compute: Compute, *, variance: bool) -> Prediction:
        """Return compute(X, features or None, variance), or the last result if X has the same values.

        Batches over MOST_ROWS rows are not kept.
        """
        if X.shape[0] > MOST_ROWS:
            return compute(X, None, variance)
        last = self._last  # read once: another thread may put its own rows there at any time
        known = last[1] if last is not None and same_rows(last[0], X) else None
        if known is None or (variance and known.variance is None):
            known = compute(X, None if known is None else known.features, variance)
            # A copy, since the caller may write its next rows into the same memory.
            self._last = (namespace(X).asarray(X, copy=True), known)
        return known

    def features(self, X: Array, compute: Callable[[Array], Array]) -> Array:
        """Return compute(X), or the features of the last prediction if it was of the same rows."""
        last = self._last
        return last[1].features if last is not None and same_rows(last[0], X) else compute(X)

    def explained(self, X: Array, features: Pivots) -> tuple[Array, Array]:
        """Return the features (m, r) of the rows X (m, d) and the variance (m,) they leave, known if just predicted."""
        last = self._last
        known = last[1] if last is not None and same_rows(last[0], X) else None
        F = features.transform(X) if known is None else known.features
        return F, features.unexplained(X, F) if known is None or known.left is None else known.left

    def correction(self, X: Array, store: Store, compute: Callable[[], Correction]) -> Correction:
        """Return compute(), or the last result if it was of the same rows and the same store."""
        last = self._corrected
        if last is not None and last[1] is store and same_rows(last[0], X):
            return last[2]
        found = compute()
        if X.shape[0] <= MOST_ROWS:
            self._corrected = (namespace(X).asarray(X, copy=True), store, found)
        return found

    def __reduce__(self) -> tuple[type[Recent], tuple[()]]:
        return Recent, ()


def same_rows(a: Array, b: Array) -> bool:
    """Return whether two sets of rows are the same."""
    return a.shape == b.shape and bool(namespace(a).all(a == b))
