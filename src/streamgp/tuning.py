"""Hyperparameters: where a stream starts, and how they follow it at a price that does not grow."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
import scipy.linalg
import scipy.optimize

from ._arrays import Array, cholesky, index, namespace, product, to_host
from .errors import NumericalError
from .kernels import BrownianPolynomial, DistancePolynomial, Kernel, Scaled, SquaredExponential, Sum

Mode = Literal["none", "continuous", "initial", "doubling"]
Objective = Literal["evidence", "loo", "training_error"]
MODES: tuple[str, ...] = ("doubling", "initial", "continuous", "none")
OBJECTIVES: tuple[str, ...] = ("evidence", "loo", "training_error")

# Share of a target's variance that counts as noise until something better is known.
NOISE_SHARE = 0.1
# Rows of the sample that length-scales are tuned on; an evaluation is O(SAMPLE³).
SAMPLE = 500
# Fewer rows say too little to tune on.
FEWEST = 50
# Standard deviation of the prior on the logarithm of each hyperparameter about where it started.
PRIOR = 0.8
# Steps of the optimiser at a tuning; it starts from where the last one ended.
STEPS = 30
# Noise stays between these shares of the targets' mean square.
NOISE_BOUNDS = (1e-6, 10.0)


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


# A sample of the stream


@dataclass(frozen=True)
class Reservoir:
    """A uniform sample of all rows seen, the same however they were cut into batches.

    Each row draws a key from (seed, its number); the rows of the smallest keys stay.

    Attributes
    ----------
    X : (m, d), y : (m, q)
        On the host, in the order in which they came.
    keys : (m,)
    seen : int
    """

    X: np.ndarray
    y: np.ndarray
    keys: np.ndarray
    seen: int
    seed: int

    @classmethod
    def empty(cls, n_features: int, n_outputs: int, seed: int) -> Self:
        """Give the sample of no rows."""
        return cls(np.empty((0, n_features)), np.empty((0, n_outputs)), np.empty(0), 0, seed)

    def add(self, X: Array, y: Array, favour: float = 0.0) -> Self:
        """See more rows, X (b, d) and y (b, q), each e^favour times as likely to stay as the first ones were."""
        b = X.shape[0]
        keys = _keys(self.seed, self.seen, b) - favour
        limit = self.keys.max() if self.keys.size >= SAMPLE else math.inf
        chosen = np.flatnonzero(keys < limit)
        if not chosen.size:
            return replace(self, seen=self.seen + b)
        at, xp = index([int(i) for i in chosen], X), namespace(X)
        keys = np.concatenate([self.keys, keys[chosen]])
        kept = np.sort(np.argsort(keys, kind="stable")[:SAMPLE])
        rows, targets = (to_host(xp.take(v, at, axis=0)).astype(np.float64) for v in (X, y))
        return replace(
            self,
            X=np.concatenate([self.X, rows])[kept],
            y=np.concatenate([self.y, targets])[kept],
            keys=keys[kept],
            seen=self.seen + b,
        )


def _keys(seed: int, first: int, n: int, block: int = 1024) -> np.ndarray:
    """Give the logarithm of an exponential variable for each of n rows from number `first` on."""
    blocks = range(first // block, (first + n - 1) // block + 1)
    drawn = np.concatenate([np.random.default_rng([seed, 7, i]).standard_exponential(block) for i in blocks])
    skipped = first - blocks[0] * block
    return np.asarray(np.log(drawn[skipped : skipped + n]))


# Objectives on rows: the exact GP of the sample


@dataclass(frozen=True)
class Fit:
    """The exact GP of a sample at some hyperparameters: its objective, to be made large, and what follows.

    Attributes
    ----------
    value : float
        An observation's and an output's share.
    gradient : (p + 1,)
        By the kernel's theta and the logarithm of the noise.
    loo_density : float
        Mean log density of each row given all others.
    """

    value: float
    gradient: np.ndarray
    loo_density: float


def exact_fit(kernel: Kernel, noise: float, X: np.ndarray, y: np.ndarray, objective: str) -> Fit:
    """Fit the exact GP to X (m, d) and y (m, q); O(m³).

    References: Rasmussen & Williams (2006), eqs. (5.9) and (5.10) to (5.13).
    """
    m, q = y.shape
    L = cholesky(kernel.block(X), "the kernel matrix of the sample", noise)
    # K⁻¹ = L⁻ᵀL⁻¹
    (potri,) = scipy.linalg.get_lapack_funcs(("potri",), (L,))
    inverse, info = potri(L, lower=1)
    if info:
        raise NumericalError("the kernel matrix of the sample cannot be inverted")
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    alpha = inverse @ y
    diagonal = inverse.diagonal()
    left = alpha / diagonal[:, None]  # leave-one-out residuals
    density = -0.5 * (left**2 * diagonal[:, None] - np.log(diagonal)[:, None] + math.log(2 * math.pi))
    if objective == "evidence":
        value = -0.5 * float((y * alpha).sum()) - q * float(np.log(L.diagonal()).sum())
        value -= 0.5 * m * q * math.log(2 * math.pi)
        W = 0.5 * (alpha @ alpha.T - q * inverse)
    elif objective == "loo":
        # d(density)/dK = −K⁻¹ B K⁻¹ symmetrised, B collecting d/dα and d/dK⁻¹_ii.
        value = float(density.sum())
        by_alpha = -alpha / diagonal[:, None]
        by_diagonal = 0.5 * ((alpha / diagonal[:, None]) ** 2 + 1.0 / diagonal[:, None]).sum(axis=1)
        cross = (inverse @ by_alpha) @ alpha.T
        W = -0.5 * (cross + cross.T) - product(inverse * by_diagonal[None, :], inverse)
    else:
        # y − K α = σ²α is what the fit leaves.
        value = -0.5 * noise**2 * float((alpha**2).sum())
        cross = (inverse @ alpha) @ alpha.T
        W = 0.5 * noise**2 * (cross + cross.T)
    by_noise = noise * float(np.trace(W))
    if objective == "training_error":
        by_noise = 0.0  # it would always ask for less noise
    gradient = np.concatenate([kernel.gradient(W, X), [by_noise]])
    return Fit(value / (m * q), gradient / (m * q), float(density.mean()))


# A tuning


@dataclass(frozen=True)
class Outcome:
    """What a tuning came to.

    Attributes
    ----------
    rows_seen : int
    verdict : str
        "taken", or why the hyperparameters stayed as they were.
    before, after : float
        The objective, a row and an output.
    evaluations : int
    seconds : float
    """

    rows_seen: int
    verdict: str
    before: float
    after: float
    evaluations: int
    seconds: float

    @property
    def taken(self) -> bool:
        """Whether the hyperparameters changed."""
        return self.verdict == "taken"


def is_due(mode: str, rows_seen: int, batches: int, last: int, initial_batches: int) -> bool:
    """Tell whether to tune now: after so many batches and rows, the last time at `last` rows (0: never)."""
    if mode == "none" or rows_seen < FEWEST:
        return False
    if mode == "doubling":
        return rows_seen >= 2 * last
    return mode == "continuous" or batches <= initial_batches


def with_amplitude(kernel: Kernel) -> Kernel:
    """Give a kernel whose amplitude can be tuned: 1·kernel, unless it is scaled or a sum of weighed parts."""
    return (
        kernel
        if isinstance(kernel, Scaled | Sum | DistancePolynomial | BrownianPolynomial)
        else Scaled(1.0, kernel)
    )


def tune(
    kernel: Kernel,
    noise: float,
    centre: np.ndarray,
    X: np.ndarray,
    y: np.ndarray,
    objective: str,
    bounds: tuple[float, float],
    *,
    tune_noise: bool,
) -> tuple[Kernel, float, str, tuple[float, float], int]:
    """Raise the objective of the exact GP of a sample X (m, d), y (m, q), from the hyperparameters of now.

    `centre` (p,) is the kernel's theta at the start of the stream: the prior pulls there, and `bounds` are
    multiples of it.

    Returns
    -------
    kernel, noise, verdict, objective before and after, evaluations
    """
    m, q = y.shape
    size = float((y**2).mean())
    nothing = (math.nan, math.nan)
    if not float(y.std(axis=0).max()) > 1e-12 * size**0.5:
        return kernel, noise, "kept: the targets do not vary", nothing, 0
    if (X[0] == X).all():
        return kernel, noise, "kept: all rows are equal", nothing, 0
    p = centre.size
    low, high = math.log(bounds[0]), math.log(bounds[1])
    limits = [(c + low, c + high) for c in centre]
    at_noise = math.log(noise)
    floor, ceiling = (math.log(max(share * size, 1e-290)) for share in NOISE_BOUNDS)
    limits.append((floor, ceiling) if tune_noise else (at_noise, at_noise))
    strength = 1.0 / (m * q * PRIOR**2)
    seen: list[float] = []

    def fit(theta: np.ndarray) -> Fit:
        return exact_fit(kernel.with_theta(theta[:p]), math.exp(theta[p]), X, y, objective)

    def penalty(theta: np.ndarray) -> float:
        return float(0.5 * strength * ((theta[:p] - centre) ** 2).sum())

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            now = fit(theta)
        except NumericalError:
            return 1e10, np.zeros_like(theta)
        seen.append(now.value)
        pull = np.concatenate([strength * (theta[:p] - centre), [0.0]])
        return penalty(theta) - now.value, pull - now.gradient

    first = np.clip(np.concatenate([kernel.theta, [at_noise]]), *np.array(limits).T)
    try:
        before = fit(first)
        found = scipy.optimize.minimize(
            loss,
            first,
            jac=True,
            method="L-BFGS-B",
            bounds=limits,
            options={"maxiter": STEPS, "maxfun": 2 * STEPS},
        )
        after = fit(found.x)
    except NumericalError as error:
        return kernel, noise, f"failed: {error}", nothing, len(seen)
    values = before.value, after.value
    if not np.isfinite(found.x).all() or not math.isfinite(after.value):
        return kernel, noise, "failed: the objective is not finite", values, len(seen)
    if after.value - penalty(found.x) < before.value - penalty(first):
        return kernel, noise, "kept: the objective would be worse", values, len(seen)
    if after.loo_density < before.loo_density:
        return kernel, noise, "kept: the held-back error would be worse", values, len(seen)
    return kernel.with_theta(found.x[:p]), math.exp(found.x[p]), "taken", values, len(seen)


def timed(
    work: Callable[[], tuple[Kernel, float, str, tuple[float, float], int]], rows_seen: int
) -> tuple[Kernel, float, Outcome]:
    """Run a tuning and say what came of it."""
    began = time.perf_counter()
    kernel, noise, verdict, (before, after), evaluations = work()
    return kernel, noise, Outcome(rows_seen, verdict, before, after, evaluations, time.perf_counter() - began)
