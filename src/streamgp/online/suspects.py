"""Which rows are suspect, and which suspects are believed: bad labels are rare and alone, a change is not.

A row is suspect if its target lies further from its prediction than the stream's own errors explain. One such row, or
a few in a row, are errors of a sensor or a clerk; many are the stream itself, which has changed or has heavy tails.
"""

from __future__ import annotations

import numpy as np

from ..kernels import Kernel
from .calibration import NOTHING

# A target is suspect beyond REACH times the calibrated LEVEL interval, whose quantile is not moved by bad labels as
# long as fewer than 1 − LEVEL are bad. For normal errors that is 9.8 standard deviations, for Student's t with 3 or 2
# degrees of freedom 16 and 22: 1 row in 2000, and in 500.
LEVEL = 0.95
REACH = 5.0
# Never below so many predicted standard deviations; so many are not worth a look at the interval.
LEAST = 8.0
# Suspects are believed where they are half of WINDOW rows in a row: the level has jumped. Ten bad labels among
# twenty are learned, too; a jump is learned, from its first row on, at its tenth row.
WINDOW = 20
# They are also believed once they are FREQUENT among the last REMEMBERED rows: what is common is no error.
FREQUENT = 0.02
REMEMBERED = 1000
# So many of the first rows are frequent, however few there are.
ENOUGH = 5
# Rows of the first batch by whose exact Gaussian process all of its rows are judged; O(JUDGES³).
JUDGES = 500
# A bad label that the model has learned hides itself. So rows beyond a half of the limit are left out at first, and
# then, until nothing changes, all are judged by a model that does not know those. Limits are divided by these:
ROUNDS = (2.0, 1.0, 1.0, 1.0)
# First targets are left out before a model is there beyond so many times the distance from the median within which nine
# of ten rows lie; one Cauchy variable in 1000 is.
ABSURD = 100.0
# The same for features, which no model judges afterwards: those of sparse features of real sets reach 500.
ABSURD_INPUT = 1e4


def limits(reach: np.ndarray) -> np.ndarray:
    """Return the predicted deviations beyond which targets are suspect, for the reach of LEVEL intervals; (q,) each."""
    # Targets that were predicted without an error say nothing about how far the next may lie.
    return np.where(reach > NOTHING, np.maximum(REACH * reach, LEAST), np.inf)


def believed(suspect: np.ndarray) -> np.ndarray:
    """Return which of the rows, in the order in which they came, are to be learned; `suspect` and result (m,)."""
    m, total = suspect.size, np.append(0, np.cumsum(suspect))
    taken = ~suspect
    if taken.all():
        return taken
    if m >= WINDOW:
        crowded = total[WINDOW:] - total[:-WINDOW] >= WINDOW / 2  # the windows that start at each row
        opened = np.append(0, np.cumsum(crowded))
        ends = np.arange(1, m + 1)
        taken |= opened[np.minimum(ends, crowded.size)] > opened[np.clip(ends - WINDOW, 0, crowded.size)]
    return np.asarray(taken | frequent(total, np.arange(1, m + 1)))


def frequent(total: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return whether suspects were frequent before each of the rows `ends`, from their cumulated number (m + 1,)."""
    starts = np.maximum(ends - REMEMBERED, 0)
    return np.asarray(total[ends] - total[starts] >= np.maximum(FREQUENT * (ends - starts), WINDOW / 2))


def absurd(values: np.ndarray, limit: float) -> np.ndarray:
    """Return which rows of (n, d) lie absurdly far from the median in some column, if they are few; (n,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        middle = np.median(values, axis=0)
        away = np.abs(values - middle)
        typical = np.quantile(away, 0.9, axis=0)
        # Where most values are equal their size takes the place of the distance; that of zeros is not known.
        size = np.where(middle != 0, np.abs(middle), np.inf)
        out: np.ndarray = ~(away <= limit * np.where(typical > 1e-12 * np.abs(middle), typical, size))
    return _if_few(np.asarray(out.any(axis=1)))


def _if_few(suspect: np.ndarray) -> np.ndarray:
    """Return `suspect` (n,) for rows in no order; where they are frequent none is."""
    return np.asarray(suspect & (suspect.sum() < max(FREQUENT * suspect.size, ENOUGH)))


def surprising(
    kernel: Kernel,
    noise: float,
    X: np.ndarray,
    z: np.ndarray,
    kept: np.ndarray,
    *,
    seed: tuple[int, ...],
    strictness: float = 1.0,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return which of the first rows, X (n, d) and z (n, q), an exact Gaussian process of others finds suspect; (n,).

    At most JUDGES of the rows `kept` (n,) judge. Among them the worst, judged by leave-one-out, leave in turn, so that
    one bad label does not make its neighbours suspect; then all other rows are predicted. Scores are compared with
    their own quantile, whatever the noise; limits are divided by `strictness`. A row of weight w, (n,), has the noise
    σ²/w.
    """
    noises = np.full(len(z), noise) if weights is None else noise / weights
    judges = np.random.default_rng(list(seed)).permutation(np.flatnonzero(kept))[:JUDGES]
    while True:
        precision = np.linalg.inv(_covariance(kernel, noises[judges], X[judges]))
        precise = np.diagonal(precision)[:, None]
        scores = np.abs(precision @ z[judges]) / np.sqrt(
            precise
        )  # error/deviation: R&W, eqs. (5.10) to (5.12)
        limit = limits(np.quantile(scores, LEVEL, axis=0)) / strictness
        worst = (scores / limit).max(axis=1)
        if worst.max() <= 1:
            break
        judges = judges[worst <= max(1.0, worst.max() / 2)]
    out = np.zeros(len(z), dtype=bool)
    others = np.setdiff1d(np.arange(len(z)), judges)
    for rows in np.array_split(others, max(1, others.size // 2000)):
        cross = kernel.block(X[rows], X[judges])
        solved = cross @ precision
        variance = kernel.diag(X[rows]) + noises[rows] - (solved * cross).sum(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            error = np.abs(z[rows] - solved @ z[judges])
        deviation = np.sqrt(np.maximum(variance, noises[rows]))[:, None]
        out[rows] = ~(error <= limit * deviation).all(axis=1)
    return _if_few(out)


def _covariance(kernel: Kernel, noises: np.ndarray, X: np.ndarray) -> np.ndarray:
    covariance: np.ndarray = kernel.block(X)
    covariance[np.diag_indices_from(covariance)] += noises
    return covariance
