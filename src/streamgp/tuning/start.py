"""Start of a stream: units, length-scales, amplitude and noise from its first rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._arrays import Array, to_host
from ..kernels import Affine, Kernel, Scaled, Sum, dictionary
from ..methods.factory import check_kernel_for
from ..parameters import Settings, given_kernel
from ..row_weights import typical_weight
from .families import TREND_SHARE, clipped, families_of, natural_kernel, spread

# Fewer rows are not tuned on. Set in version 0.1; other values were not compared.
MIN_ROWS = 50
# Share of the variance of the targets that is taken as noise before a tuning.
NOISE_SHARE = 0.1
# Shares of noise that are averaged over while there are few rows.
SHARES = np.array([0.001, 0.01, 0.03, 0.1, 0.3, 0.6, 0.95])


@dataclass(frozen=True)
class Start:
    """How targets are standardised and what the model of them is.

    Attributes
    ----------
    offset, scale : (q,)
        The model sees (y − offset)/scale.
    kernel : Kernel
    noise : float
        Of every output.
    """

    offset: np.ndarray
    scale: np.ndarray
    kernel: Kernel
    noise: float


def start(
    X: np.ndarray,
    y: np.ndarray,
    kernel: Kernel | None,
    noise: float | None,
    family: str = "squared_exponential",
    *,
    trend: bool = True,
    few: bool = False,
    fixed: bool = False,
    weights: np.ndarray | None = None,
) -> Start:
    """Choose what was not given from the first rows, X (n, d) and y (n, q), so that units do not matter.

    A kernel that is given is taken as it is: targets are then neither moved nor scaled, and white noise in
    the kernel is noise. Without one, the targets' mean is taken off and the kernel is the `natural_kernel` of the
    family that is named, with a trend if wanted. `few`: so few rows that they are not tuned on; see `from_few`.
    `fixed`: a kernel that is given will not be tuned either. The noise is that of a row of weight one; it is
    estimated as that of a row of typical `weights` (n,).
    """
    typical = typical_weight(weights)
    relative = None if weights is None else weights / typical
    n_outputs = y.shape[1]
    offset, scale, deviation = np.zeros(n_outputs), np.ones(n_outputs), spread(y, relative)
    if kernel is not None:
        if noise is None:
            noise = 0.0 if kernel.nugget else typical * NOISE_SHARE * float((deviation**2).mean())
        given = Start(offset, scale, kernel.without_nugget(), noise + kernel.nugget)
        if not few:
            return given
        given = replace(given, noise=given.noise / typical)
        found = (
            noise_from_few(X, y, given, relative)
            if fixed
            else from_few(X, y, given, centred=False, weights=relative)
        )
        return replace(found, noise=found.noise * typical)
    offset = y[0] + (
        (y - y[0]).mean(axis=0) if relative is None else np.average(y - y[0], axis=0, weights=relative)
    )
    variance = 1.0 if noise is None else float((deviation**2).mean())
    if family == "dictionary":
        chosen: Kernel = _scaled(dictionary(spread(clipped(X)) * X.shape[1] ** 0.5), variance)
    else:
        chosen = natural_kernel(family, X, variance, trend=trend and not few)
    if noise is not None:
        return Start(offset, scale, chosen, noise)
    found = Start(offset, deviation, chosen, NOISE_SHARE)
    found = from_few(X, y, found, centred=True, weights=relative) if few else found
    return replace(found, noise=found.noise * typical)


def _scaled(kernel: Kernel, factor: float) -> Kernel:
    return kernel.with_amounts(factor * kernel.amounts) if isinstance(kernel, Affine) else factor * kernel


def from_few(
    X: np.ndarray, y: np.ndarray, begun: Start, *, centred: bool, weights: np.ndarray | None = None
) -> Start:
    """Estimate amplitude and noise from a few rows, X (n, d) and y (n, q), for nominal coverage; O(n³).

    For covariances v[(1 − ρ)C + ρI], C the correlation of `begun`, the likelihood of each share ρ of SHARES is
    taken with v, and the mean where the targets are `centred`, integrated out (flat priors on log v and the mean).
    ρ is its posterior mean, v the estimate from the residuals, raised by 1/n for the mean that is not known.
    Predictions are then distributed as Student's t with n − 1 degrees of freedom. Targets that do not vary tell
    nothing, and for an indefinite kernel nothing can be estimated. The noise of a row of weight w, (n,), is ρ/w.

    References: Rasmussen & Williams (2006), section 2.7; Shah, Wilson & Ghahramani, Student-t processes (2014).
    """
    n, prior = len(X), float(begun.kernel.diag(X).mean())
    varying = (y != y[0]).any(axis=0)
    if n < 2 or not begun.kernel.positive_semidefinite or not prior > 0 or not varying.any():
        return begun
    root = np.ones(n) if weights is None else np.sqrt(weights)
    values, V = np.linalg.eigh(begun.kernel.block(X) / prior * root[:, None] * root)
    z, ones = (
        V.T @ (root[:, None] * ((y - begun.offset) / begun.scale)[:, varying]),
        (V * root[:, None]).sum(axis=0),
    )
    size = float(np.abs(z).max())
    z = z / size  # so that no square leaves the range of numbers
    spectra = (1.0 - SHARES[:, None]) * np.maximum(values, 0.0) + SHARES[:, None]  # (s, n)
    means, left = _residuals(z, ones, spectra, centred)
    freedom, q = n - 1 if centred else n, z.shape[1]
    likelihood = -0.5 * q * np.log(spectra).sum(axis=1) - 0.5 * freedom * np.log(left).sum(axis=1)
    if centred:
        likelihood -= 0.5 * q * np.log((ones**2 / spectra).sum(axis=1))
    share = _posterior_mean(SHARES, likelihood)
    means, left = _residuals(z, ones, ((1.0 - share) * np.maximum(values, 0.0) + share)[None, :], centred)
    variance = size * (float(left.mean()) / freedom * (1.0 + 1.0 / n)) * size
    offset = begun.offset.copy()
    offset[varying] += begun.scale[varying] * (size * means[0])
    kernel = _scaled(begun.kernel, variance * (1.0 - share) / prior)
    return Start(offset, begun.scale, kernel, variance * share)


def noise_from_few(X: np.ndarray, y: np.ndarray, begun: Start, weights: np.ndarray | None = None) -> Start:
    """Estimate the noise alone from a few rows, X (n, d) and y (n, q), for a kernel that stays as it is; O(n³)."""
    with np.errstate(over="ignore", under="ignore"):
        size = float((y**2).mean())
    if not begun.kernel.positive_semidefinite or not 0 < size < np.inf:
        return begun
    root = np.ones(len(X)) if weights is None else np.sqrt(weights)
    values, V = np.linalg.eigh(begun.kernel.block(X) / size * root[:, None] * root)
    z, noises = V.T @ (root[:, None] * (y / size**0.5)), np.geomspace(1e-4, 10.0, 16)
    spectra = np.maximum(values, 0.0) + noises[:, None]  # (s, n)
    left = _residuals(z, V.sum(axis=0), spectra, centred=False)[1]
    likelihood = -0.5 * (z.shape[1] * np.log(spectra).sum(axis=1) + left.sum(axis=1))
    return replace(begun, noise=size * _posterior_mean(noises, likelihood))


def _posterior_mean(candidates: np.ndarray, log_likelihood: np.ndarray) -> float:
    weights = np.exp(log_likelihood - log_likelihood.max())
    return float((weights * candidates).sum() / weights.sum())


def _residuals(
    z: np.ndarray, ones: np.ndarray, spectra: np.ndarray, centred: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and weighted squared residuals, (s, q) each, for eigenvalues (s, n) in whose axes y is z (n, q)."""
    if centred:
        means = (ones / spectra) @ z / (ones**2 / spectra).sum(axis=1)[:, None]
    else:
        means = np.zeros((len(spectra), z.shape[1]))
    away = z[None, :, :] - ones[None, :, None] * means[:, None, :]
    return means, (away**2 / spectra[:, :, None]).sum(axis=1)


def start_of(settings: Settings, X: Array, y: Array, weights: Array | None = None) -> tuple[Start, bool]:
    """Return where a stream starts, and whether its rows X (n, d), y (n, q) are too few to tune on."""
    kernel = given_kernel(settings, X.shape[1])
    noise = None if settings.noise == "auto" else float(settings.noise)
    families = families_of(settings.kernel)
    family = families[0] if families else "dictionary"
    given = kernel is not None and (noise is not None or kernel.nugget > 0)
    few = not given and X.shape[0] < MIN_ROWS
    if kernel is not None:
        check_kernel_for(settings, kernel)
    found = start(
        to_host(X).astype(np.float64),
        to_host(y),
        kernel,
        noise,
        family,
        trend=X.shape[1] <= TREND_SHARE * settings.most_features,
        few=few,
        fixed=settings.tune == "none",
        weights=None if weights is None else to_host(weights),
    )
    if settings.tune != "none":
        found = replace(found, kernel=with_amplitude(found.kernel))
    return found, few


def with_amplitude(kernel: Kernel) -> Kernel:
    """Return a kernel whose amplitude can be tuned: 1·kernel, unless it is scaled or a sum of weighted parts."""
    return kernel if isinstance(kernel, Scaled | Sum | Affine) else Scaled(1.0, kernel)
