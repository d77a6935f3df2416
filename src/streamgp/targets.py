"""TargetScaling: the model sees (y − offset)/scale; the only place where targets are scaled and answers scaled back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ._arrays import Array, asarray_like, cast, double, is_foreign, namespace, to_host, watch
from .errors import InputError

# Beyond this, sums of squares leave the range of float64.
LARGEST = 1e150


@dataclass(frozen=True)
class TargetScaling:
    """Offset and scale of the targets, and the shape and dtype of answers.

    Attributes
    ----------
    offset, scale : (q,)
    one_dimensional : bool
        Whether targets came as (n,) and not as (n, q).
    dtype
        That of answers.
    """

    offset: Array
    scale: Array
    one_dimensional: bool
    dtype: Any

    @property
    def n_outputs(self) -> int:
        """Q."""
        return int(self.scale.shape[0])

    def scaled(self, y: Array) -> Array:
        """Return (y − offset)/scale for y (n, q), unchecked."""
        return (y - self.offset[None, :]) / self.scale[None, :]

    def scaled_variance(self, variance: Array) -> Array:
        """Return variances (n, q) of targets in the units of the model."""
        return variance / (self.scale**2)[None, :]

    def apply(self, y: Array, *, deferred: bool = False) -> Array:
        """Return standardised targets (n, q); raise InputError where sums of their squares would overflow.

        NaN, a label that is missing, stays NaN where there are several outputs (`checks`). `deferred`: on a device,
        check when it is next waited for (`_arrays.settle`).
        """
        xp, z = namespace(y), self.scaled(y)
        largest = xp.max(xp.abs(z))
        if type(z) is np.ndarray and z.shape[1] > 1 and np.isnan(largest):
            largest = np.max(np.abs(z), where=~np.isnan(z), initial=0.0)
        if deferred and is_foreign(y):
            watch(double(xp.reshape(largest, (1,))), lambda found: _check_range(y, float(found[0])))
        elif not largest <= LARGEST:
            _check_range(y, float(largest))
        return z

    def rescaled(self, factors: np.ndarray) -> Self:
        """Return the scaling by which standardised targets are `factors` (q,) times as large."""
        return replace(self, scale=self.scale / asarray_like(factors, self.scale))

    def moved(self, shift: np.ndarray) -> Self:
        """Return the scaling by which standardised targets are smaller by `shift` (q,)."""
        return replace(self, offset=self.offset + asarray_like(shift, self.scale) * self.scale)

    def factors_from(self, other: Self) -> np.ndarray | None:
        """Return what targets that `other` has standardised are multiplied by to be as here, (q,); None: no factor."""
        same = np.array_equal(to_host(self.offset), to_host(other.offset))
        return np.asarray(to_host(other.scale) / to_host(self.scale)) if same else None

    def unscaled(
        self, mean: Array, variance: Array | None, noise: np.ndarray, rows: slice
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean, variance and noise of some rows in the units of the targets, each (m, q) on the host.

        Variance and noise are NaN where there is no variance.
        """
        scale, told = to_host(self.scale), to_host(mean)[rows]
        said = np.full(told.shape, np.nan) if variance is None else to_host(variance)[rows]
        return told * scale + to_host(self.offset), said * scale**2, (0.0 * said + noise) * scale**2

    def scaled_members(self, members: np.ndarray) -> np.ndarray:
        """Return means and variances (n, 2, k, q) of targets in the units of the model."""
        offset, scale = to_host(self.offset), to_host(self.scale)
        return np.stack([(members[:, 0] - offset) / scale, members[:, 1] / scale**2], axis=1)

    def unscaled_members(self, members: np.ndarray) -> np.ndarray:
        """Return means and variances (n, 2, k, q) of the model in the units of the targets."""
        offset, scale = to_host(self.offset), to_host(self.scale)
        return np.stack([members[:, 0] * scale + offset, members[:, 1] * scale**2], axis=1)

    def undo_mean(self, mean: Array) -> Array:
        """Return means (m, q) in the units and shape of the targets."""
        return self.shaped(mean * self.scale[None, :] + self.offset[None, :])

    def undo_std(self, variance: Array) -> Array:
        """Return standard deviations in the units and shape of the targets, for variances (m, q)."""
        return self.shaped(namespace(variance).sqrt(variance) * self.scale[None, :])

    def undo_gradient(self, gradient: Array) -> Array:
        """Return derivatives of means or deviations, (m, d, q), in the units and shape of the targets."""
        return self.shaped(gradient * self.scale[None, None, :])

    def undo_covariance(self, covariances: Sequence[Array]) -> Array:
        """Return the covariance (m, m) or (m, m, q) in the units of the targets, for one of (m, m) of each output."""
        first, *others = covariances
        all_of_them = namespace(first).stack([first, *others], axis=2) if others else first[:, :, None]
        return self.shaped(all_of_them * (self.scale**2)[None, None, :])

    def undo_log_density(self, log_density: float, n: float | np.ndarray) -> float:
        """Return the log density of n rows of targets, or n (q,) labels of each output, in their own units."""
        logs = np.log(to_host(self.scale))
        if np.ptp(n) == 0:
            return log_density - float(np.ravel(n)[0]) * float(logs.sum())
        return log_density - float((n * logs).sum())

    def per_output(self, values: Array) -> Any:
        """Return one number for each output, (q,), as the answers have it: a number where targets were (n,)."""
        values = cast(values, self.dtype)
        return float(values[0]) if self.one_dimensional else values

    def shaped(self, values: Array) -> Array:
        """Return values (…, q) in the shape and dtype of the targets."""
        values = cast(values, self.dtype)
        if not bool(namespace(values).all(namespace(values).isfinite(values))):
            raise InputError(
                f"the prediction leaves the range of {values.dtype}; some rows of X are too far out for the kernel"
            )
        return values[..., 0] if self.one_dimensional else values


def _check_range(y: Array, largest: float) -> None:
    """Raise InputError where y is not finite, or too large: `largest` is that of the standardised targets."""
    if largest <= LARGEST:
        return
    xp = namespace(y)
    if not bool(xp.all(xp.isfinite(y))):
        raise InputError("y contains NaN or infinity; drop or fill these rows. The model is unchanged.")
    raise InputError(
        f"y reaches {float(xp.max(xp.abs(y))):g}, {largest:g} in units of the model; beyond "
        f"{LARGEST:g} sums of squares overflow; scale y down. The model is unchanged."
    )
