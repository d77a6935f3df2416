"""Hyperparameters: where a stream starts when the user gives none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .kernels import Kernel, SquaredExponential

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


def start(X: np.ndarray, y: np.ndarray, kernel: Kernel | None, noise: float | None) -> Start:
    """Choose what was not given from the first rows, X (n, d) and y (n, q), so that units do not matter.

    A kernel that is given is taken as it is: targets are then neither moved nor scaled, and white noise in
    the kernel is noise. Without one, the targets' mean is taken off and the length-scales are the
    features' standard deviations times √d, at which two typical rows have a correlation of 1/e.
    """
    n_outputs = y.shape[1]
    offset, scale, deviation = np.zeros(n_outputs), np.ones(n_outputs), spread(y)
    if kernel is not None:
        if noise is None:
            noise = 0.0 if kernel.nugget else NOISE_SHARE * float((deviation**2).mean())
        return Start(offset, scale, kernel.without_nugget(), noise + kernel.nugget)
    offset = y[0] + (y - y[0]).mean(axis=0)
    correlation = SquaredExponential(spread(X) * X.shape[1] ** 0.5)
    if noise is None:
        return Start(offset, deviation, correlation, NOISE_SHARE)
    return Start(offset, scale, float((deviation**2).mean()) * correlation, noise)
