"""What is remembered of the rows that passed: fingerprints, so that `unlearn` can refuse, and repeated inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Self

import numpy as np

from .._arrays import Array, copied, on_host, to_host
from ..errors import InputError
from ..methods.rows import moving

# Rows whose fingerprints are kept, eight bytes each; of rows learned and of rows unlearned.
LEDGER_ROWS = 10_000


def _nothing() -> np.ndarray:
    return np.empty(0, dtype=np.uint64)


@dataclass(frozen=True)
class Ledger:
    """Which of the last rows were learned, and which were unlearned again.

    Attributes
    ----------
    learned : (m,) of uint64
        Fingerprints of the last rows learned and not unlearned since, the newest last.
    removed : (k,) of uint64
        Fingerprints of the last rows unlearned.
    complete : bool
        Whether `learned` lists every row that the model knows.
    recurring : bool
        Whether equal rows were found in this stream when some were unlearned: then the model may have learned an older
        copy of a row that is no longer listed here.
    """

    learned: np.ndarray
    removed: np.ndarray
    complete: bool = True
    recurring: bool = False

    @classmethod
    def empty(cls) -> Self:
        """Return the ledger of a model that knows nothing."""
        return cls(_nothing(), _nothing())

    def add(self, X: Array, y: Array, weights: Array | None = None) -> Self:
        """Add the rows X (b, d), y (b, q) of weights (b,); rows on a device are not fingerprinted."""
        if not on_host(X):
            return self.incomplete()
        new = fingerprints(to_host(X), to_host(y), weights)
        listed = self._keep(np.concatenate([self.learned, new]), self.complete)
        return listed if not self.removed.size else replace(listed, removed=_without(self.removed, new))

    def merge(self, other: Self) -> Self:
        """Return the ledger of both streams."""
        both = self._keep(np.concatenate([other.learned, self.learned]), self.complete and other.complete)
        removed = np.concatenate([other.removed, self.removed])[-LEDGER_ROWS:]
        removed = _without(removed, both.learned)  # what one has unlearned the other may have learned
        return replace(both, removed=removed, recurring=self.recurring or other.recurring)

    def _keep(self, learned: np.ndarray, complete: bool) -> Self:
        return replace(
            self, learned=learned[-LEDGER_ROWS:], complete=complete and learned.size <= LEDGER_ROWS
        )

    def incomplete(self) -> Self:
        """Return a ledger that does not claim to list every row."""
        return replace(self, complete=False) if self.complete else self

    def without(self, X: Array, y: Array, weights: Array | None = None) -> tuple[Self, bool]:
        """Remove the rows X (b, d), y (b, q) of weights (b,), each once; return the ledger and whether all were listed.

        Raise InputError for a row that is known not to be there: every row is listed and it is not among them, or
        its copy was unlearned, in a stream in which no row was seen twice. Rows older than the ledger are accepted.
        """
        if not on_host(X):
            return self, False
        learned, gone = self.learned, fingerprints(to_host(X), to_host(y), weights)
        kept = np.ones(learned.size, dtype=bool)
        recurring = self.recurring or np.unique(learned).size < learned.size
        before = set() if recurring else set(self.removed.tolist())
        for i, row in enumerate(gone):
            at = np.flatnonzero((learned == row) & kept)[:1]
            if not at.size and (self.complete or int(row) in before):
                raise InputError(
                    f"row {i} was not learned, or was already unlearned; the model is unchanged. Unlearn each "
                    "row once, with the values of X and y, and the sample_weight, that were learned"
                )
            kept[at] = False
            if not recurring:
                before.add(int(row))
        removed = np.concatenate([self.removed, gone])[-LEDGER_ROWS:]
        listed = replace(self, learned=learned[kept], removed=removed, recurring=recurring)
        return listed, int((~kept).sum()) == gone.size


@dataclass(frozen=True)
class Repeats:
    """The last input and how often it was repeated: copies sent by a stuck sensor are left out.

    Attributes
    ----------
    last : (1, d) or None
    run : int
        Rows up to the last one with equal inputs.
    """

    last: Array | None = None
    run: int = 0

    def after(self, X: Array, rows_seen: int) -> tuple[Self, Array | None]:
        """Return the state after X (b, d), and the numbers of the rows that are not repeats, None for all."""
        fresh, run = moving(X, self.last, self.run, alone=self.run >= rows_seen)
        return replace(self, last=copied(X[-1:, :]), run=run), fresh


def fingerprints(X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return 64 bits for each row of X (b, d), y (b, q) and weights (b,), equal for equal rows; shape (b,).

    Those of a row of weight one are those of a row without weight.
    """
    table = np.concatenate([X, y], axis=1, dtype=np.float64)
    table += 0.0  # −0 equals 0
    bits = table.view(np.uint64)
    # Each value is mixed (the finaliser of splitmix64), multiplied by an odd number of its column and summed.
    with np.errstate(over="ignore"):
        prints = mixed((mixed(bits) * _multipliers(bits.shape[1])).sum(axis=1, dtype=np.uint64))
        if weights is not None:
            own = mixed(np.ascontiguousarray(weights).view(np.uint64))
            prints = np.where(weights == 1.0, prints, mixed(prints + own))
    return prints


@cache
def _multipliers(n_columns: int) -> np.ndarray:
    """Return an odd number for each column."""
    return mixed(np.arange(1, n_columns + 1, dtype=np.uint64)) | np.uint64(1)


def _without(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    return some[~np.isin(some, others)]


def mixed(bits: np.ndarray) -> np.ndarray:
    """Return 64 bits for each of `bits`, which differ in about half of them where two of `bits` differ."""
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))
