"""Memory of answers: what `predict` said of rows whose labels come later, so that these answers are scored.

With labels that come late, the model that learns a row is not the one that answered it: it has learned rows in between
and looks better than it was. A row is known again by its values, or by an id.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from .._arrays import Array, asarray_like, namespace, on_host, to_host
from ..errors import InputError
from ..locking import writing
from ..targets import TargetScaling
from .history import fingerprints, mixed

# Answers that are kept: at one row a minute two weeks of labels that are missing; 32 + 24 q bytes each.
ANSWERS_KEPT = 20_000
NEWEST = slice(-ANSWERS_KEPT, None)
# Answers to single rows wait in a list until they are this many, so that one does not copy all that are kept.
WAITING = 64


@dataclass(frozen=True)
class Answers:
    """Answers in the units of the targets, the oldest first.

    Attributes
    ----------
    keys : (n,) of uint64
        Fingerprints of the rows or of their ids.
    mean, variance, noise : (n, q)
        The variance is that of the function; variance and noise are NaN where only the mean was asked for.
    members : (n, 2, k, q)
        What each member of the panel said, and the mixture; k = 0 without a panel.
    rows : (n,) of int64
        How many rows the model that answered had learned.
    numbers : (n,) of int64
        Counted from the first answer on.
    """

    keys: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    noise: np.ndarray
    members: np.ndarray
    rows: np.ndarray
    numbers: np.ndarray

    @classmethod
    def none(cls, n_outputs: int, n_members: int = 0) -> Self:
        """Return no answers, of so many members of a panel."""
        count, table = np.empty(0, dtype=np.int64), np.empty((0, n_outputs))
        members = np.empty((0, 2, n_members, n_outputs))
        return cls(np.empty(0, dtype=np.uint64), table, table, table, members, count, count)

    @property
    def complete(self) -> np.ndarray:
        """Which answers have a variance; (n,)."""
        return np.asarray(~np.isnan(self.variance).any(axis=1))

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """Return the answers of all parts."""
        return cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)))

    def take(self, at: Any) -> Self:
        """Return the answers with these places, or of a slice or a mask."""
        return type(self)(*(getattr(self, f.name)[at] for f in fields(self)))

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Return the place of the answer to each row, (b,), −1 for none; answers to equal rows are used in turn."""
        near = np.flatnonzero(_among(self.keys, keys))
        order = near[np.argsort(self.keys[near], kind="stable")]
        listed = self.keys[order]
        # The k-th of equal rows gets the k-th of the answers to it.
        by_key = np.argsort(keys, kind="stable")
        turn = np.empty(keys.size, dtype=np.int64)
        turn[by_key] = np.arange(keys.size) - np.searchsorted(keys[by_key], keys[by_key])
        place = np.searchsorted(listed, keys) + turn
        found = place < np.searchsorted(listed, keys, side="right")
        at = np.full(keys.size, -1, dtype=np.int64)
        at[found] = order[place[found]]
        return at


@dataclass(frozen=True)
class Late:
    """What was answered for the rows of a batch by models before the present one.

    Attributes
    ----------
    known : (b,) of bool
        Which rows these are; for the others the rest means nothing.
    mean, variance, noise : (b, q)
        In the units of the targets; NaN where not asked for.
    members : (b, 2, k, q)
        What each member of the panel said, and the mixture.
    lag : (b,)
        Rows learned since the answer.
    """

    known: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    noise: np.ndarray
    members: np.ndarray
    lag: np.ndarray

    @property
    def typical_lag(self) -> int:
        """The median number of rows that were learned between an answer and its label."""
        return int(np.median(self.lag[self.known])) if self.known.any() else 0

    def only(self, rows: Any) -> Self:
        """Return a part of the rows: a slice, places or a mask."""
        return type(self)(*(getattr(self, f.name)[rows] for f in fields(self)))

    def screened(self, kept: np.ndarray, n: int) -> Self:
        """Return the rows for which `kept` (b,) is true, behind others that were held back, n of them together."""
        rest = self.only(kept)
        held = n - rest.known.size
        if not held:
            return rest
        values = (getattr(rest, f.name) for f in fields(rest))
        return type(self)(*(np.concatenate([np.zeros((held, *v.shape[1:]), v.dtype), v]) for v in values))

    def standardised(self, targets: TargetScaling) -> Self:
        """Return the answers in the present units of the model."""
        mean, variance, noise = (
            asarray_like(v, targets.scale) for v in (self.mean, self.variance, self.noise)
        )
        return type(self)(
            asarray_like(self.known, targets.scale, namespace(targets.scale).bool),
            targets.scaled(mean),
            targets.scaled_variance(variance),
            targets.scaled_variance(noise),
            targets.scaled_members(self.members),
            asarray_like(self.lag, targets.scale),
        )


class AnswerMemory:
    """The answers of one estimator; any thread may add to it.

    Changes hold `locking.writing(self)`, never for long. A copy or a pickle has the answers and goes on by itself.
    """

    def __init__(self, kept: Answers) -> None:
        self._kept = kept
        self._waiting: list[Answers] = []
        self._numbered = int(kept.numbers[-1]) + 1 if kept.numbers.size else 0
        # Which rows the model that answered last has answered, and whether with a variance.
        self._by = int(kept.rows[-1]) if kept.rows.size else -1
        last = kept.rows == self._by
        self._said = dict(zip(kept.keys[last].tolist(), kept.complete[last].tolist(), strict=True))

    def __reduce__(self) -> tuple[type[AnswerMemory], tuple[Answers]]:
        return AnswerMemory, (self.kept,)

    @property
    def kept(self) -> Answers:
        """The answers, at most ANSWERS_KEPT."""
        with writing(self):
            self._join()
            return self._kept

    def _join(self) -> None:
        if self._waiting:
            self._kept = Answers.joined([self._kept, *self._waiting]).take(NEWEST)
            self._waiting = []

    def add(
        self,
        keys: np.ndarray,
        mean: np.ndarray,
        variance: np.ndarray,
        noise: np.ndarray,
        members: np.ndarray | None = None,
        *,
        rows: int,
    ) -> None:
        """Remember answers to the rows with the keys (m,) by a model that had learned so many rows.

        mean, variance and noise are (m, q), members (m, 2, k, q). Of answers that one model gives to a row more than
        once, one is kept, with a variance if it was asked for.
        """
        if members is None:
            members = np.full((keys.size, *self._kept.members.shape[1:]), np.nan)
        new = Answers(keys, mean, variance, noise, members, np.full(keys.size, rows), np.arange(keys.size))
        with writing(self):
            if rows != self._by or len(self._said) > ANSWERS_KEPT:
                self._by, self._said = rows, {}
            said, complete = self._said, bool(new.complete.all())
            known = [said.get(key) for key in new.keys.tolist()]
            new = new.take(np.array([was is None or (complete and not was) for was in known]))
            if complete and False in known:
                kept = self.kept
                mean_only = np.isin(kept.keys, new.keys) & (kept.rows == rows) & ~kept.complete
                self._kept = kept.take(~mean_only)
            said.update(dict.fromkeys(new.keys.tolist(), complete))
            self._waiting.append(replace(new, numbers=new.numbers + self._numbered))
            self._numbered += keys.size
            if len(self._waiting) >= WAITING:
                self._join()

    def find(self, keys: np.ndarray, rows: int) -> tuple[Late | None, np.ndarray]:
        """Return what models before the present one, of so many rows, answered to the rows with the keys (b,).

        Also return the numbers of all answers to them, for `drop` when the rows are learned. What the present model
        has answered is left out: predicted again, the answer is the same.
        """
        kept = self.kept
        if not kept.keys.size:
            return None, kept.numbers
        at = kept.find(keys)
        found = kept.take(at)
        lag = np.where(at >= 0, rows - found.rows, 0)
        known = lag != 0
        late = Late(known, found.mean, found.variance, found.noise, found.members, np.maximum(lag, 0))
        return late if known.any() else None, found.numbers[at >= 0]

    def drop(self, numbers: np.ndarray) -> None:
        """Forget the answers with these numbers: they were scored."""
        if numbers.size:
            with writing(self):
                kept = self.kept
                self._kept = kept.take(~_among(kept.numbers, numbers))


def _among(values: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return which of the values (n,) are among `some`; one is compared, more are sorted."""
    return np.asarray(values == some[0] if some.size == 1 else np.isin(values, some))


@contextmanager
def scoring(memory: AnswerMemory | None, X: Array, ids: Any, rows: int) -> Iterator[Late | None]:
    """Yield what earlier models answered to the rows X (b, d), or None; forget it when the block ends without an error.

    The present model has learned so many rows.
    """
    if memory is None or not on_host(X):
        yield None
        return
    late, numbers = memory.find(keys_of(X, ids), rows)
    yield late
    memory.drop(numbers)


def keys_of(X: Array, ids: Any, newest: slice = slice(None)) -> np.ndarray:
    """Return 64 bits for each row of X (m, d), of its id where `ids` (m,) is given and of its values otherwise."""
    n, X = X.shape[0], to_host(X)[newest]
    if ids is None:
        return fingerprints(X, X[:, :0])
    ids = np.asarray(ids)
    if ids.shape != (n,):
        raise InputError(f"ids has shape {ids.shape}, X has {n} rows; give one id for each row")
    ids = ids[newest]
    if ids.dtype.kind not in "biufmMU":
        ids = np.array([str(value) for value in ids])
    if ids.dtype.kind == "U":
        letters = np.ascontiguousarray(ids).view(np.uint32).reshape(ids.size, -1)
        return fingerprints(letters, X[:, :0])
    if ids.dtype.kind in "bi":
        ids = ids.astype(np.int64)
    elif ids.dtype.kind == "f":
        ids = ids.astype(np.float64)
    return mixed(np.ascontiguousarray(ids).view(np.uint64))
