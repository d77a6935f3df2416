"""Targets of other shapes: a model of log y, √y or logit y, whose answers are in the units of y.

Quantiles go through a monotone function as they are: the median and the ends of intervals are exact. Mean and standard
deviation are those of the transformed normal distribution, by Gauss-Hermite quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ._arrays import Array, is_foreign, to_host
from .errors import InputError, ParameterError

AUTO = "auto"
NAMES = ("log", "sqrt", "logit")
# What is added to y before its logarithm is taken, as a share of the typical y, so that a zero is a number, ln 100
# below the typical y; what is a tenth of that or more changes by a tenth at most.
SHARE = 0.01
# What is added to a share and to its complement before their ratio is taken.
EDGE = 0.005
# Rows by which "auto" chooses: fewer tell little, more take time.
FEWEST, MOST = 50, 1000
# "auto" transforms targets where the odds for it are 7 to 1, and so many standard errors, or better.
ODDS, ERRORS = float(np.log(7.0)), 2.0
# exp of more is no number in single precision.
STEEPEST = 80.0
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(31)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class TargetTransform:
    """A monotone function of each target.

    Attributes
    ----------
    names : tuple of q str
        "log", "sqrt", "logit" or "none".
    shift : (q,)
        What is added before the logarithm, or to both parts of the ratio.
    """

    names: tuple[str, ...]
    shift: np.ndarray

    @classmethod
    def of(cls, names: tuple[str, ...], y: np.ndarray) -> Self:
        """Return the transforms with these names of the targets y (n, q), the first ones."""
        positive = np.where(y > 0, y, np.nan)
        typical = [float(np.nanmedian(v)) if np.isfinite(v).any() else 1.0 for v in positive.T]
        shift = {"log": SHARE * np.array(typical), "logit": np.full(len(names), EDGE)}
        return cls(names, np.array([shift[n][j] if n in shift else 0.0 for j, n in enumerate(names)]))

    def apply(self, y: np.ndarray) -> np.ndarray:
        """Return transformed targets of y (n, q), NaN where a label is missing; raise InputError out of range."""
        return np.stack([self._forward(j, y[:, j]) for j in range(len(self.names))], axis=1)

    def undo(self, values: np.ndarray) -> np.ndarray:
        """Return targets (…, q) in their own units, of transformed ones; never out of their range."""
        return np.stack([self._back(j, values[..., j]) for j in range(len(self.names))], axis=-1)

    def moments(self, mean: np.ndarray, std: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations (m, q) of targets whose transforms are normal, with these (m, q)."""
        values = self.undo(mean[None] + std[None] * _NODES[:, None, None])
        center = np.tensordot(_WEIGHTS, values, axes=1)
        spread = np.tensordot(_WEIGHTS, (values - center) ** 2, axes=1)
        return center, np.sqrt(spread)

    def is_like(self, other: TargetTransform | None) -> bool:
        """Return whether another transform is the same function."""
        return other is not None and self.names == other.names and bool((self.shift == other.shift).all())

    def suits(self, y: np.ndarray) -> bool:
        """Return whether all targets of y (n, q) can be transformed."""
        try:
            self.apply(y)
        except InputError:
            return False
        return True

    def _forward(self, j: int, y: np.ndarray) -> np.ndarray:
        name, c = self.names[j], self.shift[j]
        if name == "none":
            return y
        _check(name, y)
        if name == "sqrt":
            return np.asarray(np.sqrt(y))
        return np.asarray(np.log(y + c) - (np.log(1.0 - y + c) if name == "logit" else 0.0))

    def _back(self, j: int, values: np.ndarray) -> np.ndarray:
        name, c = self.names[j], self.shift[j]
        if name == "none":
            return values
        if name == "sqrt":
            return np.asarray(np.maximum(values, 0.0) ** 2)
        grown = np.exp(np.clip(values, -STEEPEST, STEEPEST))
        if name == "log":
            return np.asarray(np.maximum(grown - c, 0.0))
        return np.asarray(np.clip((grown * (1.0 + c) - c) / (1.0 + grown), 0.0, 1.0))

    def slopes(self, y: np.ndarray) -> np.ndarray:
        """Return the logarithms of the derivatives at y (n,), of a transform of one target."""
        name, c = self.names[0], self.shift[0]
        if name == "none":
            return np.zeros_like(y)
        if name == "sqrt":  # no density is infinite: a zero counts as a small number
            return np.asarray(-0.5 * np.log(np.maximum(y, SHARE * np.median(y))) - np.log(2.0))
        if name == "log":
            return np.asarray(-np.log(y + c))
        return np.asarray(np.log(1.0 / (y + c) + 1.0 / (1.0 - y + c)))


def _check(name: str, y: np.ndarray) -> None:
    """Raise InputError where a target y (n,) cannot be transformed."""
    low, high = float(np.nanmin(y, initial=0.0)), float(np.nanmax(y, initial=0.0))
    if low < 0:
        raise InputError(
            f"target_transform={name!r} is for targets of 0 or more; y reaches {low:g}. Leave such rows out, or the "
            "transform. The model is unchanged"
        )
    if name == "logit" and high > 1:
        raise InputError(
            f"target_transform='logit' is for shares between 0 and 1; y reaches {high:g}. Divide y by its range. The "
            "model is unchanged"
        )


def chosen(wanted: str | None, X: np.ndarray, y: np.ndarray) -> TargetTransform | None:
    """Return the transform that is wanted of targets y (n, q) of the first rows X (n, d); None where it is none.

    "auto": for each target the one under which a ridge regression of these rows, each left out in turn, gives y the
    highest density; none while they are few.
    """
    if wanted is None:
        return None
    q = y.shape[1]
    if wanted != AUTO:
        return TargetTransform.of((wanted,) * q, y)
    names = tuple(_best(X[:MOST], y[:MOST, j]) for j in range(q))
    return None if set(names) == {"none"} else TargetTransform.of(names, y)


def refuse(transform: TargetTransform | None, what: str) -> None:
    """Raise ParameterError where targets are transformed: what is asked for is of the transformed ones."""
    if transform is not None:
        raise ParameterError(
            f"{what} is not built for target_transform={transform.names[0]!r}: it would be of the transformed target; "
            "learn the transformed target yourself, without target_transform"
        )


def first_transform(wanted: str | None, X: Array, y: Array) -> TargetTransform | None:
    """Return the transform that is `chosen` from the first rows, X (n, d) and y (n, q), as they came."""
    if wanted is not None and is_foreign(X):
        raise InputError(
            f"target_transform={wanted!r} is for NumPy arrays; transform the targets of another library"
        )
    return chosen(wanted, to_host(X), to_host(y))


def _best(X: np.ndarray, y: np.ndarray) -> str:
    known = ~np.isnan(y)
    X, y = X[known], y[known]
    if y.size < FEWEST or y.min() < 0 or not np.ptp(y) > 0:
        return "none"
    candidates = NAMES if y.max() <= 1 else ("log", "sqrt")
    plain, best, most = _densities("none", X, y), "none", 0.0
    for name in candidates:
        gains = _densities(name, X, y) - plain
        gain = float(gains.sum())
        if gain > max(ODDS, ERRORS * y.size**0.5 * float(gains.std()), most):
            best, most = name, gain
    return best


def _densities(name: str, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return log densities of targets y (n,), each left out in turn of a ridge regression on X (n, d)."""
    transform = TargetTransform.of((name,), y[:, None])
    z = transform.apply(y[:, None])[:, 0]
    middle, size = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    T = np.clip(np.nan_to_num((X - middle) / np.where(size > 0, size, 1.0)), -5.0, 5.0)
    U, s, _ = np.linalg.svd(T, full_matrices=False)
    share = s**2 / (s**2 + 1.0)
    away = z - z.mean()
    error = (away - U @ (share * (U.T @ away))) / (1.0 - np.minimum((U**2) @ share + 1.0 / y.size, 0.95))
    variance = max(float((error**2).mean()), 1e-300)
    return np.asarray(-0.5 * np.log(variance) - 0.5 * error**2 / variance + transform.slopes(y))
