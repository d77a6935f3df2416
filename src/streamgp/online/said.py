"""What the members of the panel said of some rows, and the mixture of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from .._arrays import Array, to_host
from ..methods import Prediction, State
from ..methods.recent import same_rows


@dataclass(frozen=True)
class Said:
    """What the members said of m rows, in standardised units.

    Attributes
    ----------
    means, variances : (m, K, q)
        Of a new observation; variances not yet scaled by past errors, NaN where only means were asked for.
    mean, variance : (m, q)
        Of the mixture.
    """

    means: np.ndarray
    variances: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    def table(self) -> np.ndarray:
        """Return all of it as one array (m, 2, K + 1, q), the mixture last."""
        means = np.concatenate([self.means, self.mean[:, None, :]], axis=1)
        return np.stack([means, np.concatenate([self.variances, self.variance[:, None, :]], axis=1)], axis=1)

    @classmethod
    def of_table(cls, table: np.ndarray) -> Self:
        """Return what `table` was made of."""
        return cls(table[:, 0, :-1], table[:, 1, :-1], table[:, 0, -1], table[:, 1, -1])

    def whitened(self, weights: np.ndarray, noise: np.ndarray, n_gaussian: int) -> Self:
        """Return this in units in which the noise of all rows is alike, for rows of these weights (m,).

        Means are multiplied by √w, and the variances of the first members, Gaussian processes, without their `noise`
        (q,) by w; what the others make of a row is taken as noise. The variance of the mixture stays.
        """
        root, variances = np.sqrt(weights)[:, None], self.variances.copy()
        of_function = np.maximum(variances[:, :n_gaussian] - noise, 0.0)
        variances[:, :n_gaussian] = weights[:, None, None] * of_function + noise
        return replace(self, means=root[:, :, None] * self.means, variances=variances, mean=root * self.mean)


@dataclass(frozen=True)
class Answered:
    """What was said of the rows X (m, d), with such a `doubt` (m, q) by missing features, beside a state."""

    state: State
    X: Array
    doubt: np.ndarray | None
    said: Said

    def is_of(self, state: State, X: Array, doubt: np.ndarray | None) -> bool:
        """Return whether this was said of these rows beside this state."""
        if self.state is not state or not same_rows(self.X, X):
            return False
        mine = self.doubt
        return mine is doubt or (mine is not None and doubt is not None and bool((mine == doubt).all()))


def told(
    gaussian: tuple[Prediction, ...], others: list[np.ndarray], noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and variances (m, K, q) of members with a variance and a noise (q,), then of `others` (m, q)."""
    means = np.stack([*(to_host(found.mean) for found in gaussian), *others], axis=1)
    variances = np.full(means.shape, np.nan if gaussian[0].variance is None else 1.0)
    for i, found in enumerate(gaussian):
        if found.variance is not None:
            variances[:, i] = np.maximum(to_host(found.variance), 0.0) + noise
    return means, variances
