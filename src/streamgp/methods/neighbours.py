"""Neighbours: what the nearest of the stored rows tell that inducing points cannot.

Inducing points explain K ≈ ΦΦᵀ and leave R = K − ΦΦᵀ. Near a point x, R is correlated with the stored rows N nearest to
it, and tells of their labels what the inducing points did not take up:

    a = (R_N + σ²I)⁻¹ r,  mean(x) = φᵀw + aᵀ(y_N − Φ_N w),  variance(x) = R(x, x) − rᵀa + σ²uᵀM⁻¹u,  u = φ − Φ_Nᵀa.

R comes from the inducing points P nearest to x alone. With C = [[K_P, K_PN], [K_NP, K_N + σ²I]] = LLᵀ,
l = L⁻¹[k_P; k_N] and e = L⁻¹[0; y_N − Φ_N w], the correction of the mean is eᵀl, and k(x, x) − lᵀl is the variance that
is left: l and e are two more rows of the Cholesky factor. uᵀM⁻¹u is taken as φᵀM⁻¹φ ‖u‖²/‖φ‖², with features on P. P
alone leaves more than all inducing points do. That R is zero at stored rows that are inducing points is known
nevertheless, and so is the mean of R(x, x) over all rows, tr(K − ΦΦᵀ)/n: where it is far below the noise, neighbours
tell nothing. So at full rank.

References: Datta et al., Hierarchical nearest-neighbor Gaussian process models (2016). Gyger, Furrer & Sigrist, Vecchia
inducing-points full-scale approximations for Gaussian processes (2025).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._arrays import (
    Array,
    clip_below,
    clipped,
    double,
    einsum,
    in_parallel,
    index,
    is_foreign,
    namespace,
    slices,
    zeros,
)
from ..gp.features import without_trend
from ..gp.outputs import Groups
from ..kernels import Kernel
from .stored import Nearest, Store, Stored

# Inducing points of which R is computed. Twice as many changed the error of kin40k and pol by less than 0.2 %.
NEAR_PIVOTS = 32
# Values count as known to this share of the prior variance, so that close points are not singular; to a larger one
# where the kernel's rounding is larger.
KNOWN_TO = (1e-8, 1e-6, 1e-4, 1e-2)
# Where inducing points leave less of a row than this share of the noise, on average, neighbours tell next to nothing.
NOTHING_LEFT = 1e-3
# Points are the same where their correlation is this close to one.
SAME = 1e-12
# The noise of a stored row that tells nothing, in prior variances.
TELLS_NOTHING = 1e12
# Rows that are corrected together, on one core: their distances to all stored rows stay in its cache.
CHUNK = 50
# Entries of a matrix that is formed at once on a device.
DEVICE_ENTRIES = 2**25


@dataclass(frozen=True)
class Correction:
    """What neighbours add to the mean, and what variance is left beside them; (m, q) each.

    Attributes
    ----------
    mean : (m, q)
    left : (m, q)
        Variance of the function that they and inducing points nearby leave.
    unsure : (m, q)
        The share of the variance of the weights, σ²φᵀM⁻¹φ, that is left.
    """

    mean: Array
    left: Array
    unsure: Array


@dataclass(frozen=True)
class Conditional:
    """What a GP on inducing points knows without its neighbours, in double precision.

    Attributes
    ----------
    kernel : Kernel
    Z : (r, d)
        The inducing points.
    at_points : (m + r, q)
        Vᵀw: the mean is cov(f(x), u) Vᵀw for the inducing variables u.
    noise : (q,)
        Of a stored row of weight one.
    unexplained : float
        The mean of R(x, x) over the rows learned.
    """

    kernel: Kernel
    Z: Array
    at_points: Array
    noise: np.ndarray
    unexplained: float

    def mean(self, X: Array) -> tuple[Array, Array]:
        """Return the mean (n, q) at the rows of X (n, d), and which of them are inducing points (n,).

        Without their features: O(n r (d + q)).
        """
        xp, (trend, _), kernel = namespace(X), self.kernel.split(), without_trend(self.kernel)
        m = 0 if trend is None or kernel is trend else trend.coefficients.size
        K, weights = kernel.block(X, self.Z), self.at_points[m:, :]
        mean = K @ weights
        if m and trend is not None:
            # The trend's own covariance with the inducing points is of rank m.
            own = self.at_points[:m, :] + xp.matrix_transpose(trend.basis(self.Z)) @ weights
            mean += trend.against_coefficients(X) @ own
        if kernel.prior_variance is None:
            K = K / xp.sqrt(clip_below(kernel.diag(self.Z), 1e-300))
        if not K.shape[1]:
            return mean, xp.zeros_like(X[:, 0]) > 0
        prior = kernel.diag(X)
        return mean, xp.max(K, axis=1) >= (1.0 - SAME) * (
            prior if kernel.prior_variance is not None else xp.sqrt(prior)
        )


@dataclass(frozen=True)
class Leaving:
    """Neighbours of m points, what inducing points leave of their targets, (m, k, q), and which are such points."""

    near: Nearest
    residual: Array
    same: Array

    @classmethod
    def of(cls, store: Store, gp: Conditional, X: Array, k: int, left: Stored | None) -> Leaving:
        """Look for the k stored rows nearest to each row of X (m, d); what is `left` of all of them may be known."""
        kernel, xp = without_trend(gp.kernel), namespace(X)
        if left is not None:
            near = left.at(left.places(kernel, X, k))
            return cls(near, near.y[:, :, :-1], near.y[:, :, -1] > 0.5)
        near = store.nearest(kernel, X, k)
        means, same = gp.mean(xp.reshape(near.X, (-1, X.shape[1])))
        return cls(near, near.y - xp.reshape(means, near.y.shape), xp.reshape(same, near.weights.shape))


def correction(store: Store, gp: Conditional, X: Array) -> Correction:
    """Return what stored neighbours of the rows X (m, d) tell a GP beside its inducing points."""
    X, k, xp = double(X), min(store.neighbours, store.count), namespace(X)
    many = is_foreign(X) and X.shape[0] * k > store.count
    left = _left_of(store.rows, gp) if many else None

    def part(rows: slice) -> Correction:
        return _local(gp, X[rows, :], Leaving.of(store, gp, X[rows, :], k, left))

    pieces = in_parallel(part, slices(X.shape[0], _together(store, gp, X, k)), X)
    names = ("mean", "left", "unsure")
    return Correction(*(xp.concat([getattr(piece, name) for piece in pieces], axis=0) for name in names))


def _left_of(rows: Stored, gp: Conditional) -> Stored:
    """Return stored rows with what inducing points leave of their targets, and a last target: 1 at inducing points.

    Once for all of them, where more neighbours are asked for than rows are stored.
    """
    xp, found = namespace(rows.X), []
    for part in slices(rows.count, max(1, DEVICE_ENTRIES // max(gp.Z.shape[0], 1))):
        means, same = gp.mean(rows.X[part, :])
        found.append(xp.concat([rows.y[part, :] - means, xp.astype(same, xp.float64)[:, None]], axis=1))
    return replace(rows, y=xp.concat(found, axis=0))


def _together(store: Store, gp: Conditional, X: Array, k: int) -> int:
    """Return how many rows X (m, d) are corrected together: on a device as many as have room."""
    if not is_foreign(X):
        return CHUNK
    r, q = gp.at_points.shape
    return int(max(1, DEVICE_ENTRIES // max(store.count, k * r, (NEAR_PIVOTS + k + 1 + q) ** 2)))


def _local(gp: Conditional, X: Array, known: Leaving) -> Correction:
    """Return the correction at the rows X (m, d) by what is known of their neighbours; see the head of the module."""
    xp, kernel, near = namespace(X), without_trend(gp.kernel), known.near
    P, groups = _nearest_points(kernel, gp.Z, X), Groups.of(gp.noise)
    K = double(kernel.blocks(xp.concat([P, near.X, X[:, None, :]], axis=1)))
    pivots, copies = xp.zeros_like(P[:, :, 0]), TELLS_NOTHING * K[:, -1, -1][:, None]
    copies = xp.where(known.same, copies, 0.0 * copies)
    found = []
    for g, noise in enumerate(groups.noises):
        tells = min(1.0, gp.unexplained / (NOTHING_LEFT * noise)) if noise > 0 else 1.0
        noises = noise / (near.weights * max(tells, 1.0 / TELLS_NOTHING) ** 2) + copies
        residual = known.residual
        if len(groups.noises) > 1:
            residual = xp.take(residual, index(groups.outputs(g), X), axis=2)
        found.append(_conditioned(K, xp.concat([pivots, noises], axis=1), residual))
    means, left, unsure = zip(*found, strict=True)
    return Correction(groups.joined(means), groups.each(left), groups.each(unsure))


def _conditioned(K: Array, noises: Array, residual: Array) -> tuple[Array, Array, Array]:
    """Return mean (m, q) and variance (m,) of the last of n + 1 points, conditioned on the n others; see `_unsure`.

    K (m, n + 1, n + 1) are covariances, noises (m, n); the last k of the n values have the residuals (m, k, q), and the
    first are zero.
    """
    (m, n), (k, q), xp = noises.shape, residual.shape[1:], namespace(K)
    scale, size = clip_below(xp.max(xp.abs(residual), axis=1), 1e-300), n + 1 + q
    flat = zeros((m, size * size), K)
    B, diagonal, prior = xp.reshape(flat, (m, size, size)), flat[:, :: size + 1], K[:, -1, -1]
    B[:, : n + 1, : n + 1] = K
    B[:, n + 1 :, n - k : n] = xp.matrix_transpose(residual / scale[:, None, :])
    # These two only end the factorisation: large enough for it to be real.
    diagonal[:, n] = 2.0 * prior + 1e-300
    diagonal[:, n + 1 :] = 1e250
    own = diagonal[:, :n] + noises
    for known_to in KNOWN_TO:
        diagonal[:, :n] = own + known_to * prior[:, None] + 1e-300
        try:
            L = xp.linalg.cholesky(B)
            break
        except (np.linalg.LinAlgError, RuntimeError):
            if known_to == KNOWN_TO[-1]:
                # A kernel that is nowhere near positive definite.
                return zeros((m, q), K), prior + 0.0, xp.ones_like(prior)
    row, values = L[:, n, :n], L[:, n + 1 :, :n]
    mean = scale * einsum("mqn,mn->mq", values, row)
    return mean, clip_below(prior - einsum("mn,mn->m", row, row), 0.0), _unsure(L[:, :n, :n], row, k)


def _unsure(L: Array, row: Array, k: int) -> Array:
    """Return ‖φ − Φ_Nᵀa‖²/‖φ‖² (m,), at most 1, for features φ on the inducing points nearby.

    L (m, n, n) is the Cholesky factor of inducing points and k neighbours, `row` (m, n) that of the point. As far as
    neighbours interpolate the features of a point, they tell of its value what the weights do not know.
    """
    p, xp = row.shape[1] - k, namespace(row)
    features, towards = row[:, :p], xp.matrix_transpose(L[:, p:, p:])
    a = xp.linalg.solve(towards, row[:, p:][:, :, None])[:, :, 0]
    rest = features - einsum("mkp,mk->mp", L[:, p:, :p], a)
    whole = einsum("mp,mp->m", features, features)
    return clipped(einsum("mp,mp->m", rest, rest) / clip_below(whole, 1e-300), 0.0, 1.0)


def _nearest_points(kernel: Kernel, Z: Array, X: Array) -> Array:
    """Return the inducing points among Z (r, d) that are nearest to each row of X (m, d); (m, p, d)."""
    if Z.shape[0] <= NEAR_PIVOTS:
        return namespace(Z).broadcast_to(Z, (X.shape[0], *Z.shape))
    points = Stored(Z, Z[:, :0], Z[:, 0])
    if is_foreign(Z):
        return points.at(points.places(kernel, X, NEAR_PIVOTS)).X
    return Z[points.nearest(kernel, X, NEAR_PIVOTS)[1]]
