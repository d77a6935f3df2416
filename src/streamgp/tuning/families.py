"""The kernel of a stream for which none was given: family, units and prior from a sample of all rows seen so far."""

from __future__ import annotations

import numpy as np

from ..kernels import FAMILIES, Kernel, Matern, RationalQuadratic, Scaled, Sum, Trend
from ..kernels.stationary import Stationary
from ..labels import without_gaps

# What kernel="auto" chooses from.
AUTO = ("squared_exponential", "matern52", "matern32", "matern12", "rational_quadratic")
# A feature or target counts as at most so many robust deviations from the median: rows that a sensor got wrong by
# orders of magnitude do not decide the units, as long as they are a minority.
OUTLYING = 10.0
# A normal distribution's standard deviation over its median absolute deviation.
ROBUST = 1.4826
# Standard deviation of the prior on the logarithm of a hyperparameter about its centre: of length-scales and
# amplitude, and of what nothing is known about (the variances of the trend, the shape of a rational quadratic).
NARROW, WIDE = 0.6, 2.0
# Targets whose mean is more than so many of their deviations from zero are centred anew: the prior of the level, whose
# deviation is that of the targets, does not reach there.
AWAY = 3.0
# More features than this share of the rank do not get a linear trend: its statistics are as large as theirs.
TREND_SHARE = 0.25


def families_of(kernel: object) -> tuple[str, ...]:
    """Return the families to choose from for the argument `kernel`; none where it fixes the kernel."""
    if kernel is None or kernel == "auto":
        return AUTO
    return (kernel,) if isinstance(kernel, str) and kernel != "dictionary" else ()


def clipped(values: np.ndarray) -> np.ndarray:
    """Return the columns of (n, d) with entries far from the median moved to OUTLYING robust deviations from it.

    A column of which more than half is one value has no robust deviation and stays as it is.
    """
    known = without_gaps(values)
    middle = np.median(known, axis=0)
    with np.errstate(over="ignore"):
        reach = OUTLYING * ROBUST * np.median(np.abs(known - middle), axis=0)
    reach = np.where((reach > 0) & np.isfinite(reach), reach, np.inf)
    return np.asarray(np.clip(values, middle - reach, middle + reach))


def off_centre(y: np.ndarray) -> np.ndarray:
    """Return how far the targets (n, q) lie from zero, (q,); 0 for outputs that are not clearly off it."""
    known = without_gaps(clipped(y))
    centre = known.mean(axis=0)
    return np.where(np.abs(centre) > AWAY * spread(known - centre), centre, 0.0)


def spread(values: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the standard deviation of each column of (n, d), safe from overflow and never zero.

    For a column that does not vary its size, and for a column of zeros one: any unit will do, but it must scale with
    the data. `weights` (n,) are those of the rows, None for ones.
    """
    size = np.abs(values).max(axis=0)
    unit = np.where(size > 0, size, 1.0)
    if weights is None:
        deviation = (values / unit).std(axis=0)
    else:
        away = values / unit - np.average(values / unit, axis=0, weights=weights)
        deviation = np.sqrt(np.average(away**2, axis=0, weights=weights))
    return np.where(deviation > 8 * np.finfo(values.dtype).eps, deviation, 1.0) * unit


def natural_kernel(family: str, X: np.ndarray, variance: float, *, trend: bool = True) -> Kernel:
    """Return the kernel at which the search for rows X (n, d), with targets of this variance, is centred.

    Length-scales are the features' standard deviations times √d, at which two typical rows have a correlation of 1/e
    under the squared exponential.
    """
    rows = clipped(X)
    unit = spread(rows)
    base = Scaled(variance, FAMILIES[family](unit * X.shape[1] ** 0.5))
    return Sum((base, Trend(rows.mean(axis=0), unit, variance, variance))) if trend else base


def family_of(kernel: Kernel) -> str:
    """Return the family of a kernel that `natural_kernel` made."""
    base = stationary_of(kernel)
    if isinstance(base, Matern):
        return f"matern{round(2 * base.nu)}2"
    return "rational_quadratic" if isinstance(base, RationalQuadratic) else "squared_exponential"


def stationary_of(kernel: Kernel) -> Stationary:
    """Return the correlation in a kernel that `natural_kernel` made."""
    rest = kernel.split()[1]
    assert isinstance(rest, Scaled)
    assert isinstance(rest.kernel, Stationary)
    return rest.kernel


def like(kernel: Kernel, natural: Kernel) -> Kernel:
    """Return `natural` with the amplitude, length-scales and trend of a kernel that may be of another family."""
    trend, rest = kernel.split()
    natural_trend, natural_rest = natural.split()
    assert rest is not None
    assert natural_rest is not None
    if family_of(kernel) == family_of(natural):
        base = natural_rest.with_theta(rest.theta)
    else:
        shared = 1 + len(
            stationary_of(natural).length_scale
        )  # the amplitude and the length-scales come first
        base = natural_rest.with_theta(np.append(rest.theta[:shared], natural_rest.theta[shared:]))
    if natural_trend is None or trend is None:
        return base if natural_trend is None else Sum((base, natural_trend))
    return Sum((base, natural_trend.with_theta(trend.theta)))


def prior_widths(kernel: Kernel) -> np.ndarray:
    """Return the standard deviation of the prior on each entry of theta of a kernel that `natural_kernel` made."""
    n_lengths = len(np.atleast_1d(stationary_of(kernel).length_scale))
    widths = np.full(kernel.theta.size, WIDE)
    widths[: 1 + n_lengths] = NARROW
    return widths
