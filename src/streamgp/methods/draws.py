"""Draws of functions: a function from the posterior, known everywhere at once (pathwise conditioning).

Matheron's rule: with h a draw of the prior, f = h + E[f − h | what the data say of f − h]. For inducing variables u of
which the data say w ~ N(M⁻¹c, σ²M⁻¹) this is f(x) = h(x) + cov(f(x), u)Vᵀ(w − Vh_u): its variance is
σ²φᵀM⁻¹φ + k(x, x) − φᵀφ, that of the prediction. h comes from random features, whose expectation is exact.

Reference: Wilson et al., Pathwise conditioning of Gaussian processes (2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._arrays import Array, asarray_like, double, namespace, zeros
from ..errors import InputError
from ..gp.features import Pivots, covariance, without_trend
from ..gp.posterior import Posterior
from ..kernels import Kernel
from ..kernels.random_features import Features, random_features

if TYPE_CHECKING:
    pass

# Random features of a draw: a kernel is then right to 1/√1000 = 3 % of its variance for one set of frequencies, where
# inducing points know nothing; over draws it is right.
N_FEATURES = 1000


@dataclass(frozen=True)
class Draw:
    """One function of q outputs.

    Attributes
    ----------
    kernel : Kernel
    Z : (r, d)
    coefficients : (m + r, q)
        Of the covariances with the inducing variables, or with the function at Z.
    prior : Features
    amplitudes : (n, q)
        The coefficients of the random features.
    of_values : bool
        Whether Z are points alone, without coefficients of a trend.
    """

    kernel: Kernel
    Z: Array
    coefficients: Array
    prior: Features
    amplitudes: Array
    of_values: bool = False

    def __call__(self, X: Array) -> Array:
        """Return the function at the rows of X (m, d), (m, q); O(m (r + n)(d + q))."""
        X = double(X)
        K = self.kernel.block(X, self.Z) if self.of_values else covariance(self.kernel, X, self.Z)
        return K @ self.coefficients + self.prior(X) @ self.amplitudes


@dataclass(frozen=True)
class Joined:
    """Functions of some of the outputs each, with their numbers."""

    parts: tuple[tuple[Draw | Joined, tuple[int, ...]], ...]

    def __call__(self, X: Array) -> Array:
        """Return the function at the rows of X (m, d), (m, q)."""
        each = [draw(X) for draw, _ in self.parts]
        order = np.argsort([j for _, outputs in self.parts for j in outputs])
        return np.take(np.concatenate(each, axis=1), order, axis=1)


class Drawable:
    """What a state can do from which no function can be drawn."""

    def draw(self, rng: np.random.Generator) -> Draw | Joined:
        """Return a function drawn from the posterior."""
        raise InputError(
            "functions cannot be drawn from this model: its predictions are not those of one positive semi-definite "
            "kernel. Use method='pivoted', or variant='projected' and tune='none' for weights that are not tuned"
        )


def prior_draw(kernel: Kernel, Z: Array, q: int, rng: np.random.Generator) -> tuple[Features, Array]:
    """Return a draw of the prior of q outputs: random features near the points Z (m, d), and their amplitudes."""
    if not kernel.positive_semidefinite:
        raise InputError(f"functions cannot be drawn from {kernel}: it is not positive semi-definite")
    prior = random_features(kernel, rng, N_FEATURES, Z)
    n = prior(Z[:1, :] if Z.shape[0] else zeros((1, Z.shape[1]), Z)).shape[1]
    return prior, asarray_like(rng.standard_normal((n, q)), Z)


def drawn_weights(posterior: Posterior, rng: np.random.Generator) -> Array:
    """Return w ~ N(M⁻¹c, σ²M⁻¹) of each output, (r, q)."""
    weights, groups = posterior.weights, posterior.groups
    normal = asarray_like(rng.standard_normal(tuple(weights.shape)), weights)
    away = [M.noise**0.5 * M.unwhiten(groups.columns(normal, g)) for g, M in enumerate(posterior.factors)]
    return weights + groups.joined(away)


def by_pivots(posterior: Posterior, features: Pivots, rng: np.random.Generator) -> Draw:
    """Return a draw for a posterior of the weights of Nyström features; O(r² q + r n)."""
    Z, V, m = double(features.Z), double(features.V), features.n_trend
    w, xp = drawn_weights(posterior, rng), namespace(Z)
    # What is left of the trend is nothing: a draw of the rest will do.
    prior, amplitudes = prior_draw(without_trend(features.kernel), Z, int(w.shape[1]), rng)
    at_points = prior(Z) @ amplitudes
    u = xp.concat([zeros((m, int(w.shape[1])), w), at_points], axis=0)
    coefficients = xp.matrix_transpose(V) @ (w - V @ u)
    return Draw(features.kernel, Z, coefficients, prior, amplitudes)
