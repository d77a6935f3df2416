"""Categories as columns of 0 and 1, in bounded memory."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Levels:
    """The categories of a column: the first ones have a column each, all others share a few.

    Attributes
    ----------
    name : str
    own : int
        Categories that get a column of their own.
    shared : int
        Columns of the others, by a hash of their name; the same in every process.
    known : tuple of str
        Categories that have a column of their own so far; an empty cell is one as well.
    """

    name: str
    own: int
    shared: int
    known: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns; those that wait for a category have a number."""
        waiting = [f"{self.name}#{i + 1}" for i in range(len(self.known), self.own)]
        others = [f"{self.name}=other{i + 1 if self.shared > 1 else ''}" for i in range(self.shared)]
        return (*(f"{self.name}={level}" for level in self.known), *waiting, *others)

    def learned(self, cells: Sequence[str]) -> Levels:
        """Return the levels that know the categories of more rows."""
        if len(self.known) == self.own:
            return self
        known = dict.fromkeys((*self.known, *cells))
        return replace(self, known=tuple(known)[: self.own]) if len(known) > len(self.known) else self

    def given(self, cells: Sequence[str]) -> np.ndarray:
        """Return the columns (b, own + shared) of categories; those that are not known are among the others."""
        places = {level: i for i, level in enumerate(self.known)}
        out = np.zeros((len(cells), self.own + self.shared))
        for i, cell in enumerate(cells):
            at = places.get(cell)
            if at is None:
                at = self.own + zlib.crc32(cell.encode("utf-8", "surrogateescape")) % self.shared
            out[i, at] = 1.0
        return out
