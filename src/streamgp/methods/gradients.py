"""Derivatives of predictions by the inputs: what a state that predicts by features, or by rows, has in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from .._arrays import Array, double, namespace
from ..gp.posterior import Posterior
from ..kernels import Kernel
from ..kernels.derivatives import central_differences

if TYPE_CHECKING:
    from .base import State


@dataclass(frozen=True)
class Gradient:
    """Derivatives of mean and latent variance by the inputs, (m, d, q) each; the variance's None if not asked for."""

    mean: Array
    variance: Array | None


def by_features(
    posterior: Posterior,
    F: Array,
    kernel: Kernel,
    X: Array,
    chain: Callable[[Array, Array], Array],
    *,
    variance: bool,
) -> Gradient:
    """Return the derivatives of the prediction of a posterior at the rows X (m, d) with features F (m, r).

    `chain` returns the derivative of φ(x)ᵀc by x for rows X and coefficients (m, r), or (1, r) for all rows.
    """
    xp, weights = namespace(F), posterior.weights
    columns = [weights[:, j][None, :] for j in range(weights.shape[1])]
    mean = xp.stack([chain(X, c) for c in columns], axis=2)
    if not variance:
        return Gradient(mean, None)
    prior = double(kernel.diag_input_gradient(double(X)))
    return Gradient(mean, _each([prior + chain(X, c) for c in posterior.variance_coefficients(F)]))


def by_differences(state: State, X: Array, *, variance: bool) -> Gradient:
    """Return the derivatives by central differences of what a state predicts at X (m, d): 2d predictions."""
    X = double(X)
    mean = central_differences(lambda x: state.predict(x, variance=False).mean, X, X)
    if not variance:
        return Gradient(mean, None)
    return Gradient(mean, central_differences(lambda x: state.predict(x).variance, X, X))


class Differentiable:
    """What a state can do that does not know the derivatives of its predictions."""

    def gradient(self, X: Array, *, variance: bool = True) -> Gradient:
        """Return the derivatives of mean and variance by the inputs at the rows of X (m, d)."""
        return by_differences(cast("State", self), X, variance=variance)


def _each(values: Sequence[Array]) -> Array:
    return namespace(values[0]).stack(list(values), axis=2)
