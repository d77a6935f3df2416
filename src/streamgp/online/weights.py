"""Weights of past scores, the ends of a conformal interval that they give, and how long errors last.

Reference: Sokal, Monte Carlo methods in statistical mechanics (1997), section 3, for the correlation time.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from scipy.special import stdtrit

# The weight of a score of this age in rows is a half; it decays as 1/age. Calm and stormy times alternate over many
# lengths of time: an exponential decay forgets the last storm in a calm, and intervals are too short for the next.
HALF_AGE = 100.0
# Errors of the last rows: the age in rows at which their weight is 1/e. Intervals are longer where so few rows show
# that errors have grown: by more than SURE standard deviations of the share of rows outside.
LATELY = 50.0
SURE = 2.0
# Lower and upper end are calibrated apart where targets are skewed: in SKEW_LEVEL intervals, the rows missed above and
# below differ by more than SKEWED standard deviations, which BLOCKS stretches of rows tell (batch means). Errors come
# in runs: after a change all lie on one side, and soon on the other.
SKEW_LEVEL = 0.9
SKEWED = 4.0
BLOCKS = 10
# Correlation times of independent errors reach this by chance.
BY_CHANCE = 2.0
# Rows of a stretch, at least, and the most stretches that are looked at.
STRETCH, STRETCHES = 200, 5
# The fewest errors that show how long they last, and the robust deviations that one counts as at most.
FEWEST, CLIPPED = 50, 5.0
# A normal distribution's standard deviation over its median absolute deviation.
ROBUST = 1.4826
# Correlations are summed up to this many times the correlation time, beyond which they are noise.
SUMMED = 5.0


def lasting(errors: np.ndarray) -> float:
    """Return over how many rows errors (n, q), NaN where a label was missing, are alike; 1 where that may be chance.

    The median over the outputs and over stretches of the rows: what follows a change is not how things are.
    """
    if len(errors) < FEWEST:
        return 1.0
    errors = errors[:, ~np.isnan(errors).all(axis=0)]
    if not errors.size:
        return 1.0
    scale = ROBUST * np.nanmedian(np.abs(errors), axis=0)
    values = np.nan_to_num(errors) / np.where(scale > 0, scale, 1.0)
    values = np.clip(values, -CLIPPED, CLIPPED)
    stretches = np.array_split(values, max(1, min(STRETCHES, len(values) // STRETCH)))
    found = float(np.median([correlation_time(v) for part in stretches for v in part.T]))
    return found if found > BY_CHANCE else 1.0


def correlation_time(values: np.ndarray) -> float:
    """Return the integrated autocorrelation time 1 + 2Σρ of a sequence (n,), at least 1."""
    n = values.size
    spectrum = np.fft.rfft(values - values.mean(), 2 * n)
    covariance = np.fft.irfft(spectrum * spectrum.conj())[: n // 4]
    if not covariance.size or not covariance[0] > 0:
        return 1.0
    times = 2.0 * np.cumsum(covariance / covariance[0]) - 1.0
    enough = np.arange(times.size) >= SUMMED * times
    return max(1.0, float(times[int(np.argmax(enough)) if enough.any() else -1]))


def recent_weights(n: int) -> np.ndarray:
    """Return the weights (n,) of scores by their age, the newest last."""
    return np.asarray(1.0 / (1.0 + np.arange(n)[::-1] / HALF_AGE))


def effective(weights: np.ndarray) -> float:
    """Return Kish's effective sample size."""
    return float(weights.sum() ** 2 / (weights**2).sum())


def quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float | None:
    """Return the conformal quantile of values (n,), with the finite-sample correction; None beyond what they tell."""
    wanted = share * (1.0 + 1.0 / effective(weights))
    if wanted >= 1:
        return None
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    at = int(np.searchsorted(total / total[-1], wanted))
    return float(values[order[min(at, order.size - 1)]])


def student(probability: float, freedom: float) -> float:
    """Return the half-width of the central interval of Student's t; of the normal for infinite freedom."""
    upper = 0.5 + probability / 2
    return NormalDist().inv_cdf(upper) if math.isinf(freedom) else float(stdtrit(freedom, upper))


def conformal_ends(
    scores: np.ndarray, weights: np.ndarray, probability: float, least: float
) -> tuple[float, float]:
    """Return how far below and above zero the central interval of signed scores (n,) reaches, both positive.

    `least` is used beyond what so few scores can tell, or the largest score if that is larger.
    """
    sizes = np.abs(scores)
    both = quantile(sizes, weights, probability)
    if both is None:
        both = max(least, float(sizes.max()))
        return both, both
    lower, upper = both, both
    if _skewed(scores, weights):
        ends = [quantile(side, weights, (1 + probability) / 2) for side in (-scores, scores)]
        if ends[0] is not None and ends[1] is not None:
            # An end that would not include zero leaves the prediction itself outside.
            lower, upper = max(ends[0], 0.0), max(ends[1], 0.0)
    longer = _longer(scores, lower, upper, probability)
    return longer * lower, longer * upper


def _skewed(scores: np.ndarray, weights: np.ndarray) -> bool:
    reach = quantile(np.abs(scores), weights, SKEW_LEVEL)
    if reach is None or scores.size < BLOCKS:
        return False
    side = (scores > reach).astype(np.float64) - (scores < -reach)
    starts = np.linspace(0, side.size, BLOCKS, endpoint=False).astype(np.int64)
    blocks = np.add.reduceat(side, starts) / np.diff(np.append(starts, side.size))
    return bool(abs(blocks.mean()) > SKEWED * blocks.std(ddof=1) / BLOCKS**0.5)


def _longer(scores: np.ndarray, lower: float, upper: float, probability: float) -> float:
    """Return by what an interval is too short for the last rows, 1 where that is not sure."""
    if not min(lower, upper) > 0:
        return 1.0
    relative = np.maximum(scores / upper, -scores / lower)
    lately = np.exp(-np.arange(scores.size)[::-1] / LATELY)
    outside = float(lately[relative > 1].sum() / lately.sum())
    deviation = (probability * (1 - probability) / effective(lately)) ** 0.5
    if outside <= 1 - probability + SURE * deviation:
        return 1.0
    found = quantile(relative, lately, probability)
    return max(1.0, float(relative.max()) if found is None else found)
