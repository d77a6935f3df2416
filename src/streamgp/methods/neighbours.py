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

from dataclasses import dataclass

import numpy as np

from .._arrays import in_parallel, slices
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

    mean: np.ndarray
    left: np.ndarray
    unsure: np.ndarray


@dataclass(frozen=True)
class Conditional:
    """What a GP on inducing points knows without its neighbours, on the host.

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
    Z: np.ndarray
    at_points: np.ndarray
    noise: np.ndarray
    unexplained: float

    def mean(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (n, q) at the rows of X (n, d), and which of them are inducing points (n,).

        Without their features: O(n r (d + q)).
        """
        trend, kernel = self.kernel.split()[0], without_trend(self.kernel)
        m = 0 if trend is None or kernel is trend else trend.coefficients.size
        K, weights = np.asarray(kernel.block(X, self.Z)), self.at_points[m:]
        mean = K @ weights
        if m and trend is not None:
            # The trend's own covariance with the inducing points is of rank m.
            mean += trend.against_coefficients(X) @ (self.at_points[:m] + trend.basis(self.Z).T @ weights)
        if kernel.prior_variance is None:
            K = K / np.sqrt(np.maximum(np.asarray(kernel.diag(self.Z)), 1e-300))
        own = np.asarray(kernel.diag(X))
        return mean, K.max(axis=1, initial=-np.inf) >= (1.0 - SAME) * (
            own if kernel.prior_variance is not None else np.sqrt(own)
        )


def correction(store: Store, gp: Conditional, X: np.ndarray) -> Correction:
    """Return what stored neighbours of the rows X (m, d) tell a GP beside its inducing points."""
    X, k = np.asarray(X, dtype=np.float64), min(store.neighbours, store.count)
    kernel = without_trend(gp.kernel)

    def part(rows: slice) -> Correction:
        return _local(gp, X[rows], store.nearest(kernel, X[rows], k))

    pieces = in_parallel(part, slices(X.shape[0], CHUNK), X)
    names = ("mean", "left", "unsure")
    return Correction(*(np.concatenate([getattr(piece, name) for piece in pieces]) for name in names))


def _local(gp: Conditional, X: np.ndarray, near: Nearest) -> Correction:
    """Return the correction at the rows X (m, d) by the rows that are near; see the head of the module."""
    (m, k, d), kernel = near.X.shape, without_trend(gp.kernel)
    P = _nearest_points(kernel, gp.Z, X)
    p, groups = P.shape[1], Groups.of(gp.noise)
    K = np.asarray(kernel.blocks(np.concatenate([P, near.X, X[:, None, :]], axis=1)), np.float64)
    prior = K[:, -1, -1].copy()
    means, same = gp.mean(near.X.reshape(m * k, d))
    residual, same = near.y - means.reshape(near.y.shape), same.reshape(m, k)
    found = []
    for g, noise in enumerate(groups.noises):
        noises = np.zeros((m, p + k))
        tells = min(1.0, gp.unexplained / (NOTHING_LEFT * noise)) if noise > 0 else 1.0
        noises[:, p:] = noise / (near.weights * max(tells, 1.0 / TELLS_NOTHING) ** 2)
        noises[:, p:] += np.where(same, TELLS_NOTHING * prior[:, None], 0.0)
        found.append(_conditioned(K, noises, residual[:, :, groups.outputs(g)]))
    means, left, unsure = zip(*found, strict=True)
    return Correction(
        np.asarray(groups.joined(means)), np.asarray(groups.each(left)), np.asarray(groups.each(unsure))
    )


def _conditioned(
    K: np.ndarray, noises: np.ndarray, residual: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean (m, q) and variance (m,) of the last of n + 1 points, conditioned on the n others; see `_unsure`.

    K (m, n + 1, n + 1) are covariances, noises (m, n); the last k of the n values have the residuals (m, k, q), and the
    first are zero.
    """
    (m, n), (k, q) = noises.shape, residual.shape[1:]
    scale = np.maximum(np.abs(residual).max(axis=1), 1e-300)
    B = np.zeros((m, n + 1 + q, n + 1 + q))
    B[:, : n + 1, : n + 1] = K
    B[:, n + 1 :, n - k : n] = np.swapaxes(residual / scale[:, None, :], 1, 2)
    diagonal, prior = np.einsum("mii->mi", B), K[:, -1, -1]
    diagonal[:, :n] += noises
    # These two only end the factorisation: large enough for it to be real.
    diagonal[:, n] = 2.0 * prior + 1e-300
    diagonal[:, n + 1 :] = 1e250
    own = diagonal[:, :n].copy()
    for known_to in KNOWN_TO:
        diagonal[:, :n] = own + known_to * prior[:, None] + 1e-300
        try:
            L = np.linalg.cholesky(B)
            break
        except np.linalg.LinAlgError:
            if known_to == KNOWN_TO[-1]:
                # A kernel that is nowhere near positive definite.
                return np.zeros((m, q)), prior.copy(), np.ones(m)
    row, values = L[:, n, :n], L[:, n + 1 :, :n]
    mean = scale * np.einsum("mqn,mn->mq", values, row)
    return mean, np.maximum(prior - np.einsum("mn,mn->m", row, row), 0.0), _unsure(L[:, :n, :n], row, k)


def _unsure(L: np.ndarray, row: np.ndarray, k: int) -> np.ndarray:
    """Return ‖φ − Φ_Nᵀa‖²/‖φ‖² (m,), at most 1, for features φ on the inducing points nearby.

    L (m, n, n) is the Cholesky factor of inducing points and k neighbours, `row` (m, n) that of the point. As far as
    neighbours interpolate the features of a point, they tell of its value what the weights do not know.
    """
    p = row.shape[1] - k
    features, towards = row[:, :p], np.swapaxes(L[:, p:, p:], 1, 2)
    a = np.linalg.solve(towards, row[:, p:, None])[:, :, 0]
    rest = features - np.einsum("mkp,mk->mp", L[:, p:, :p], a)
    whole = np.einsum("mp,mp->m", features, features)
    share = np.einsum("mp,mp->m", rest, rest) / np.maximum(whole, 1e-300)
    return np.asarray(np.minimum(share, 1.0))


def _nearest_points(kernel: Kernel, Z: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return the inducing points among Z (r, d) that are nearest to each row of X (m, d); (m, p, d)."""
    if Z.shape[0] <= NEAR_PIVOTS:
        return np.broadcast_to(Z, (X.shape[0], *Z.shape))
    none = np.empty((Z.shape[0], 0))
    return np.asarray(Z[Stored(Z, none, none).nearest(kernel, X, NEAR_PIVOTS)[1]])
