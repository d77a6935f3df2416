"""Drift: a sequential test of whether errors are distributed as those of the rows before."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

# Errors that new ones are compared with, how many of them there must be at least, and after how many they are renewed.
REFERENCE, ENOUGH, RENEWED = 1000, 300, 50
# No error counts for more than one of three standard deviations, so that rare outliers are no drift.
MOST = 3.0
# The strongest correlation of neighbouring errors that is taken out: at 1 nothing would be left.
CORRELATED = 0.98
# Lags over which correlation that is left is summed: evidence counts for less by it.
LAGS = 20
# Shifts that the test bets on, in standard deviations; a bet on one also wins on those near it.
SHIFTS = np.array([0.5, 1.0, 2.0])
HOW = ("higher than before", "lower than before", "larger than before", "less steady than before")
# Larger errors in predicted standard deviations are not told apart.
_LARGEST = 1e100


@dataclass(frozen=True)
class Reference:
    """Errors (n,) in predicted standard deviations that new ones are compared with.

    Three values are taken of each: the error, its size, and the size of its change from what the error before lets
    expect.
    """

    errors: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @cached_property
    def persistence(self) -> float:
        """Correlation of an error with the one before."""
        return _correlation(_normal_scores(np.sort(self.errors), self.errors))

    def values(self, errors: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Return the three values (3, m) of errors (m,), given the errors before each."""
        return np.stack([errors, np.abs(errors), np.abs(errors - self.persistence * before)])

    @cached_property
    def ordered(self) -> np.ndarray:
        """The values of these errors, (3, n − 1), in ascending order."""
        return np.sort(self.values(self.errors[1:], self.errors[:-1]), axis=1)

    def scores(self, values: np.ndarray) -> np.ndarray:
        """Return normal scores (3, m): the normal quantile of the rank of each value among those of these errors."""
        found = [_normal_scores(known, mine) for known, mine in zip(self.ordered, values, strict=True)]
        return np.asarray(np.clip(found, -MOST, MOST))

    @cached_property
    def correlations(self) -> np.ndarray:
        """Correlation (3,) of each kind of score with the one before."""
        return np.array([_correlation(each) for each in self._own_scores])

    @cached_property
    def variances(self) -> np.ndarray:
        """Long-run variance (3,) of what the score before does not let expect of each kind of score."""
        left = self.unexpected(self._own_scores[:, 1:], self._own_scores[:, :-1])
        return np.array([_long_run_variance(each) for each in left])

    def unexpected(self, scores: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Return scores (3, m) without what the scores before let expect."""
        expected = self.correlations[:, None] * before
        left = (scores - expected) / np.sqrt(1 - self.correlations[:, None] ** 2)
        return np.asarray(np.clip(left, -MOST, MOST))

    @cached_property
    def _own_scores(self) -> np.ndarray:
        return self.scores(self.values(self.errors[1:], self.errors[:-1]))


@dataclass(frozen=True)
class Drift:
    """Evidence that the last errors are not distributed as those before, from one row to the next.

    Values of each error become normal scores, by their ranks among the REFERENCE errors before. What the score before
    lets expect is taken out, and evidence is discounted by the correlation that is left. Then run CUSUM statistics, the
    logarithm of what bets on a shift win that began at any row: an e-detector. Where the order of rows tells nothing,
    the mean number of rows until evidence exceeds c is at least c.

    Attributes
    ----------
    reference : Reference
    fresh : (m,)
        Errors that are not among them yet, fewer than RENEWED.
    last : float
        The error before.
    scores : (3,)
        Its normal scores.
    evidence : (4, len(SHIFTS))
        Logarithms, one row for each of HOW.
    """

    reference: Reference = field(default_factory=Reference)
    fresh: np.ndarray = field(default_factory=lambda: np.zeros(0))
    last: float = 0.0
    scores: np.ndarray = field(default_factory=lambda: np.zeros(3))
    evidence: np.ndarray = field(default_factory=lambda: np.zeros((len(HOW), len(SHIFTS))))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as arrays and numbers, for a checkpoint."""
        return {**self.__dict__, "reference": self.reference.errors}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Drift:
        """Return the test of which `to_dict` returned `content`."""
        return cls(**{**content, "reference": Reference(content["reference"])})

    @property
    def log_evidence(self) -> float:
        """The logarithm of the mean evidence of all bets."""
        return float(np.logaddexp.reduce(self.evidence, axis=None)) - math.log(self.evidence.size)

    @property
    def how(self) -> str:
        """How the last errors differ most from those before."""
        return HOW[int(self.evidence.max(axis=1).argmax())]

    def add(self, errors: np.ndarray, most: float) -> tuple[Drift, int]:
        """Return the test after some of the errors (b,), in predicted standard deviations, and how many it took.

        It takes those before the reference is renewed, and none behind one at which the log evidence exceeds `most`.
        """
        errors = np.clip(errors[: RENEWED - self.fresh.size], -_LARGEST, _LARGEST)
        scores, evidence, taken = self.scores, self.evidence, len(errors)
        if self.reference.errors.size >= ENOUGH:
            before = np.concatenate([[self.last], errors[:-1]])
            known = self.reference.scores(self.reference.values(errors, before))
            wins = self._wins(known)
            for i in range(len(errors)):
                evidence = np.maximum(0.0, evidence + wins[:, :, i])
                if evidence.max() > most and replace(self, evidence=evidence).log_evidence > most:
                    taken = i + 1
                    break
            scores = known[:, taken - 1]
        reference, fresh = self.reference, np.concatenate([self.fresh, errors[:taken]])
        if fresh.size >= RENEWED:
            reference, fresh = Reference(np.concatenate([reference.errors, fresh])[-REFERENCE:]), fresh[:0]
        return Drift(reference, fresh, float(errors[taken - 1]), scores, evidence), taken

    def _wins(self, scores: np.ndarray) -> np.ndarray:
        """Return what the bets win at rows with these scores (3, m): (4, len(SHIFTS), m)."""
        before = np.concatenate([self.scores[:, None], scores[:, :-1]], axis=1)
        signed, size, change = self.reference.unexpected(scores, before)
        discount = self.reference.variances[[0, 0, 1, 2], None, None]
        shifts = SHIFTS[None, :, None]
        return np.asarray(
            shifts / discount * (np.stack([signed, -signed, size, change])[:, None, :] - shifts / 2)
        )


def _normal_scores(known: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the normal quantile of the rank of each value among the sorted `known` ones."""
    below, upto = (np.searchsorted(known, values, side) for side in ("left", "right"))
    scores: np.ndarray = ndtri(((below + upto) / 2 + 0.5) / (known.size + 1))
    return scores


def _correlation(scores: np.ndarray) -> float:
    """Return the correlation of scores (n,) with those before, from 0 to CORRELATED."""
    squares = float(scores @ scores)
    return min(max(float(scores[1:] @ scores[:-1]) / squares, 0.0), CORRELATED) if squares else 0.0


def _long_run_variance(scores: np.ndarray) -> float:
    """Return 1 plus twice the sum of the autocorrelations, tapered to 0 at LAGS (Bartlett); at least 1."""
    centred = scores - scores.mean()
    squares = float(centred @ centred)
    if squares == 0.0:
        return 1.0
    sums = [(1 - k / LAGS) * float(centred[k:] @ centred[:-k]) for k in range(1, LAGS)]
    return max(1.0, 1.0 + 2 * sum(sums) / squares)
