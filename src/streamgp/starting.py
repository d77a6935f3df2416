"""Where a stream starts: units, length-scales and noise from its first rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .kernels import Affine, Kernel, Matern, RationalQuadratic, SquaredExponential, dictionary

# Share of a target's variance that counts as noise until something better is known.
NOISE_SHARE = 0.1


@dataclass(frozen=True)
class Start:
    """How targets are standardised and what the model of them is.

    Attributes
    ----------
    offset, scale : (q,)
        The model sees (y − offset)/scale.
    kernel : Kernel
    noise : float
    """

    offset: np.ndarray
    scale: np.ndarray
    kernel: Kernel
    noise: float


def spread(values: np.ndarray) -> np.ndarray:
    """Give the standard deviation of each column of (n, d), safe from overflow and never zero.

    A column that does not vary gives its size, and a column of zeros gives one: any unit will do, but it
    must follow the data's.
    """
    size = np.abs(values).max(axis=0)
    unit = np.where(size > 0, size, 1.0)
    deviation = (values / unit).std(axis=0)
    return np.where(deviation > 8 * np.finfo(values.dtype).eps, deviation, 1.0) * unit


# Kernels by name, made from the length-scale of each feature.
FAMILIES: dict[str, Callable[[np.ndarray], Kernel]] = {
    "squared_exponential": SquaredExponential,
    "matern12": lambda lengths: Matern(lengths, nu=0.5),
    "matern32": lambda lengths: Matern(lengths, nu=1.5),
    "matern52": lambda lengths: Matern(lengths, nu=2.5),
    "rational_quadratic": RationalQuadratic,
    "dictionary": dictionary,
}


def start(
    X: np.ndarray,
    y: np.ndarray,
    kernel: Kernel | None,
    noise: float | None,
    family: str = "squared_exponential",
) -> Start:
    """Choose what was not given from the first rows, X (n, d) and y (n, q), so that units do not matter.

    A kernel that is given is taken as it is: targets are then neither moved nor scaled, and white noise in
    the kernel is noise. Without one, the targets' mean is taken off and the length-scales are the
    features' standard deviations times √d, at which two typical rows have a correlation of 1/e, in a kernel of
    the family that is named.
    """
    n_outputs = y.shape[1]
    offset, scale, deviation = np.zeros(n_outputs), np.ones(n_outputs), spread(y)
    if kernel is not None:
        if noise is None:
            noise = 0.0 if kernel.nugget else NOISE_SHARE * float((deviation**2).mean())
        return Start(offset, scale, kernel.without_nugget(), noise + kernel.nugget)
    offset = y[0] + (y - y[0]).mean(axis=0)
    lengths = spread(X) * X.shape[1] ** 0.5
    correlation = FAMILIES[family](lengths)
    if noise is None:
        return Start(offset, deviation, correlation, NOISE_SHARE)
    variance = float((deviation**2).mean())
    if isinstance(correlation, Affine):
        return Start(offset, scale, correlation.with_amounts(variance * correlation.amounts), noise)
    return Start(offset, scale, variance * correlation, noise)
