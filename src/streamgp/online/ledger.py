"""Ledger: fingerprints of the last rows learned, so that `unlearn` can tell rows that it must refuse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from .._arrays import Array, on_host, to_host
from ..errors import InputError

# Rows whose fingerprints are kept, eight bytes each; of rows learned and of rows unlearned.
KEPT = 10_000


def _nothing() -> np.ndarray:
    return np.empty(0, dtype=np.uint64)


@dataclass(frozen=True)
class Ledger:
    """Which rows were learned and which were unlearned again, as far back as memory goes.

    Attributes
    ----------
    learned : (m,) of uint64
        Fingerprints of the last rows learned and not unlearned since, the newest last.
    removed : (k,) of uint64
        Fingerprints of the last rows unlearned.
    complete : bool
        Whether `learned` lists every row that the model knows.
    recurring : bool
        Whether equal rows were found in this stream when some were unlearned: then an older copy of a row may be known
        to the model and no longer to this ledger.
    """

    learned: np.ndarray
    removed: np.ndarray
    complete: bool = True
    recurring: bool = False

    @classmethod
    def empty(cls) -> Self:
        """Return the ledger of a model that knows nothing."""
        return cls(_nothing(), _nothing())

    def add(self, X: Array, y: Array) -> Self:
        """List the rows X (b, d), y (b, q); rows on a device are not looked at."""
        if not on_host(X):
            return self.incomplete()
        new = fingerprints(to_host(X), to_host(y))
        listed = self._keep(np.concatenate([self.learned, new]), self.complete)
        return listed if not self.removed.size else replace(listed, removed=_without(self.removed, new))

    def merge(self, other: Self) -> Self:
        """List the rows of another stream, too."""
        both = self._keep(np.concatenate([other.learned, self.learned]), self.complete and other.complete)
        removed = np.concatenate([other.removed, self.removed])[-KEPT:]
        removed = _without(removed, both.learned)  # what one has unlearned the other may know
        return replace(both, removed=removed, recurring=self.recurring or other.recurring)

    def _keep(self, learned: np.ndarray, complete: bool) -> Self:
        return replace(self, learned=learned[-KEPT:], complete=complete and learned.size <= KEPT)

    def incomplete(self) -> Self:
        """Return a ledger that does not claim to list every row."""
        return replace(self, complete=False) if self.complete else self

    def without(self, X: Array, y: Array) -> tuple[Self, bool]:
        """Strike out the rows X (b, d), y (b, q), each once; tell whether all were listed.

        Raises InputError for a row that is known not to be there: every row is listed and it is not among them, or
        its copy was unlearned, in a stream in which no row was seen twice. Rows older than the memory pass.
        """
        if not on_host(X):
            return self, False
        learned, gone = self.learned, fingerprints(to_host(X), to_host(y))
        kept = np.ones(learned.size, dtype=bool)
        recurring = self.recurring or np.unique(learned).size < learned.size
        before = set() if recurring else set(self.removed.tolist())
        for i, row in enumerate(gone):
            at = np.flatnonzero((learned == row) & kept)[:1]
            if not at.size and (self.complete or int(row) in before):
                raise InputError(
                    f"row {i} was not learned, or was unlearned before; the model is unchanged. Unlearn each "
                    "row once, with the values of X and y that were learned"
                )
            kept[at] = False
            if not recurring:
                before.add(int(row))
        removed = np.concatenate([self.removed, gone])[-KEPT:]
        listed = replace(self, learned=learned[kept], removed=removed, recurring=recurring)
        return listed, int((~kept).sum()) == gone.size


def fingerprints(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return 64 bits for each row of X (b, d) and y (b, q), equal for equal rows; shape (b,)."""
    table = np.concatenate([X, y], axis=1, dtype=np.float64)
    table += 0.0  # −0 equals 0
    bits = table.view(np.uint64)
    # Each value is mixed (the finaliser of splitmix64), multiplied by an odd number of its column and summed.
    with np.errstate(over="ignore"):
        columns = _mixed(np.arange(1, bits.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
        return _mixed((_mixed(bits) * columns).sum(axis=1, dtype=np.uint64))


def _without(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    return some[~np.isin(some, others)]


def _mixed(bits: np.ndarray) -> np.ndarray:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = bits ^ (bits >> np.uint64(31))
    return mixed
