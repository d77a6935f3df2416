"""Hyperparameters follow the stream, at a price that does not grow: objectives, and when and how they are raised."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.optimize

from .._arrays import cholesky, product
from ..errors import NumericalError
from ..gp.mixture import Mixture, Worth
from ..kernels import Affine, Kernel, Matern, Scaled, SquaredExponential, Sum
from .reservoir import SAMPLE
from .start import NOISE_SHARE

Mode = Literal["none", "continuous", "initial", "hybrid", "doubling"]
Objective = Literal["evidence", "loo", "training_error"]
MODES: tuple[str, ...] = ("doubling", "initial", "hybrid", "continuous", "none")
OBJECTIVES: tuple[str, ...] = ("evidence", "loo", "training_error")

# The mode of a stream that only takes its sample: it will be tuned when it is merged into another.
LATER = "later"
# Fewer rows say too little to tune on.
FEWEST = 50
# Standard deviation of the prior on the logarithm of each hyperparameter about where it started.
PRIOR = 0.6
# Steps of the optimiser at a tuning, and where there is one after every batch; it starts where the last one ended.
STEPS = 30
FEW_STEPS = 1
# The verdict on hyperparameters that were changed.
TAKEN = "taken"
# Multiples of the default length-scales that a tuning looks at, lest it stay where everything is noise.
STARTS = (1.0, 0.3, 0.1, 0.03)
# Targets are tuned on as if none were further from the median than so many robust standard deviations.
OUTLYING = 10.0
# Noise stays between these shares of the targets' variance.
NOISE_BOUNDS = (1e-6, 10.0)


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
    held_back : float
        Mean log density of each row given all others; for an indefinite kernel −½ log of their mean squared error.
    """

    value: float
    gradient: np.ndarray
    held_back: float


def exact_fit(kernel: Kernel, noise: float, X: np.ndarray, y: np.ndarray, objective: str) -> Fit:
    """Fit the exact GP to X (m, d) and y (m, q); O(m³).

    References: Rasmussen & Williams (2006), eqs. (5.9) and (5.10) to (5.13).
    """
    m, q = y.shape
    inverse, log_det = _inverse(kernel, noise, X)
    alpha = inverse @ y
    diagonal = inverse.diagonal()
    left = alpha / diagonal[:, None]  # leave-one-out residuals
    if kernel.positive_semidefinite:
        density = -0.5 * (left**2 * diagonal[:, None] - np.log(diagonal)[:, None] + math.log(2 * math.pi))
        held_back = float(density.mean())
    elif objective == "loo":
        raise NumericalError("an indefinite kernel has no density to leave a row out of")
    else:
        held_back = -0.5 * math.log(max(float((left**2).mean()), 1e-300))
    if objective == "evidence":
        if math.isnan(log_det):
            raise NumericalError("the kernel matrix of the sample plus noise is not positive definite")
        value = -0.5 * (float((y * alpha).sum()) + q * (log_det + m * math.log(2 * math.pi)))
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
    return Fit(value / (m * q), gradient / (m * q), held_back)


def _inverse(kernel: Kernel, noise: float, X: np.ndarray) -> tuple[np.ndarray, float]:
    """Give (k(X, X) + σ²I)⁻¹ (m, m) and the logarithm of the determinant, NaN where it is indefinite."""
    what = "the kernel matrix of the sample"
    if not kernel.positive_semidefinite:
        values, V = np.linalg.eigh(kernel.block(X) + noise * np.eye(X.shape[0]))
        if np.abs(values).min() <= 1e-14 * np.abs(values).max():
            raise NumericalError(f"{what} plus noise={noise:g} is singular")
        return (V / values) @ V.T, float(np.log(values).sum()) if values[0] > 0 else math.nan
    L = cholesky(kernel.block(X), what, noise)
    (potri,) = scipy.linalg.get_lapack_funcs(("potri",), (L,))
    half, info = potri(L, lower=1)
    if info:
        raise NumericalError(f"{what} cannot be inverted")
    return np.tril(half) + np.tril(half, -1).T, 2.0 * float(np.log(L.diagonal()).sum())


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
        return self.verdict == TAKEN


def is_due(mode: str, rows_seen: int, tunings: int, last: int, initial_batches: int, old: float) -> bool:
    """Tell whether to tune now: after so many rows and tunings, the last time at `last` rows (0: never).

    `old` is the share that rows of before the last tuning have in what counts: half of it is left when the rows
    have doubled, or sooner where the past is forgotten, but not before the sample can be a new one.
    """
    if mode in ("none", LATER) or rows_seen < FEWEST:
        return False
    if mode == "doubling":
        return old <= 0.5 and rows_seen - last >= min(last, SAMPLE)
    return mode == "continuous" or tunings < initial_batches


def with_amplitude(kernel: Kernel) -> Kernel:
    """Give a kernel whose amplitude can be tuned: 1·kernel, unless it is scaled or a sum of weighed parts."""
    return kernel if isinstance(kernel, Scaled | Sum | Affine) else Scaled(1.0, kernel)


@dataclass(frozen=True)
class Tuned:
    """Hyperparameters after a tuning: the old ones unless `verdict` is "taken"."""

    kernel: Kernel
    noise: float
    verdict: str
    before: float = math.nan
    after: float = math.nan
    evaluations: int = 0


def tune_on_rows(
    kernel: Kernel,
    noise: float,
    centre: np.ndarray,
    X: np.ndarray,
    y: np.ndarray,
    objective: str,
    bounds: tuple[float, float],
    *,
    tune_noise: bool,
    steps: int = STEPS,
) -> Tuned:
    """Raise the objective of the exact GP of a sample X (m, d), y (m, q), from the hyperparameters of now.

    `centre` (p,) is the kernel's theta at the start of the stream: the prior pulls there, and `bounds` are
    multiples of it. Raises nothing: what goes wrong is the verdict.
    """
    verdict = nothing_to_learn(X, y)
    if verdict:
        return Tuned(kernel, noise, verdict)
    y = _without_outliers(y)

    def evaluate(kernel: Kernel, noise: float) -> Fit:
        return exact_fit(kernel, noise, X, y, objective)

    size = float(y.var(axis=0).mean())
    starts = _starts(kernel, centre, NOISE_SHARE * size if tune_noise else noise)
    return _maximise(evaluate, kernel, noise, centre, y.size, size, bounds, tune_noise, steps, starts)


def nothing_to_learn(X: np.ndarray, y: np.ndarray) -> str:
    """Say why there is nothing to tune on in a sample, X (m, d) and y (m, q); empty if there is something."""
    if not float(y.std(axis=0).max()) > 1e-12 * float((y**2).mean()) ** 0.5:
        return "kept: the targets do not vary"
    return "kept: all rows are equal" if (X[0] == X).all() else ""


def _without_outliers(y: np.ndarray) -> np.ndarray:
    middle = np.median(y, axis=0)
    spread = 1.4826 * np.median(np.abs(y - middle), axis=0)
    reach = np.where(spread > 0, OUTLYING * spread, np.inf)
    return np.asarray(np.clip(y, middle - reach, middle + reach))


def _starts(kernel: Kernel, centre: np.ndarray, noise: float) -> list[np.ndarray]:
    """Give other places to start from, theta and log noise: shorter length-scales, for kernels that have them."""
    if not (isinstance(kernel, Scaled) and isinstance(kernel.kernel, SquaredExponential | Matern)):
        return []
    lengths = np.append(0.0, np.ones(centre.size - 1))
    return [np.append(centre + math.log(factor) * lengths, math.log(noise)) for factor in STARTS]


def tune_weights(
    kernel: Affine,
    noise: float,
    centre: np.ndarray,
    mixture: Mixture,
    objective: str,
    bounds: tuple[float, float],
    *,
    tune_noise: bool,
    steps: int = STEPS,
) -> Tuned:
    """Raise the objective of a kernel's weights and the noise from statistics alone (Algorithm 5, step 13)."""
    observations = mixture.count * mixture.moment.shape[1]
    size = mixture.energy / observations

    def evaluate(kernel: Kernel, noise: float) -> Worth:
        assert isinstance(kernel, Affine)
        return mixture.worth(kernel.amounts, noise, objective)

    return _maximise(evaluate, kernel, noise, centre, observations, size, bounds, tune_noise, steps, [])


class _Landscape:
    """Value less prior over the kernel's theta and log noise; a place is evaluated once, however often asked for."""

    def __init__(
        self,
        evaluate: Callable[[Kernel, float], Fit | Worth],
        kernel: Kernel,
        centre: np.ndarray,
        observations: float,
    ) -> None:
        self._evaluate, self._kernel, self._centre = evaluate, kernel, centre
        self._strength = 1.0 / (observations * PRIOR**2)
        self._known: dict[bytes, Fit | Worth | None] = {}

    @property
    def evaluations(self) -> int:
        """The number of places looked at."""
        return len(self._known)

    def at(self, place: np.ndarray) -> Fit | Worth | None:
        """Evaluate theta and log noise (p + 1,); None where the objective is not defined."""
        key = place.tobytes()
        if key not in self._known:
            try:
                now = self._evaluate(self._kernel.with_theta(place[:-1]), math.exp(place[-1]))
                defined = math.isfinite(now.value) and bool(np.isfinite(now.gradient).all())
                self._known[key] = now if defined else None
            except (ArithmeticError, np.linalg.LinAlgError):  # NumericalError is one, and so is an overflow
                self._known[key] = None
        return self._known[key]

    def loss(self, place: np.ndarray) -> tuple[float, np.ndarray]:
        """Give what is to be made small, and its gradient."""
        now, away = self.at(place), place[:-1] - self._centre
        if now is None:
            return 1e10, np.zeros_like(place)
        pull = np.append(self._strength * away, 0.0)
        return float(0.5 * self._strength * (away**2).sum()) - now.value, pull - now.gradient


def _maximise(
    evaluate: Callable[[Kernel, float], Fit | Worth],
    kernel: Kernel,
    noise: float,
    centre: np.ndarray,
    observations: float,
    size: float,
    bounds: tuple[float, float],
    tune_noise: bool,
    steps: int,
    starts: list[np.ndarray],
) -> Tuned:
    """Maximise value less prior over the kernel's theta and log noise; `size` is the targets' variance."""
    at_noise = math.log(noise)
    floor, ceiling = (math.log(max(share * size, 1e-290)) for share in NOISE_BOUNDS)
    limits = [(c + math.log(bounds[0]), c + math.log(bounds[1])) for c in centre]
    limits.append((min(floor, at_noise), max(ceiling, at_noise)) if tune_noise else (at_noise, at_noise))
    low_end, high_end = np.array(limits).T
    land = _Landscape(evaluate, kernel, centre, observations)
    first = np.append(kernel.theta, at_noise)
    # From where it stands, unless another place is clearly better; that may lie out of bounds itself.
    places = [np.clip(place, low_end, high_end) for place in (first, *starts)]
    losses = [land.loss(place)[0] for place in places]
    found = scipy.optimize.minimize(
        land.loss,
        places[0 if losses[0] <= min(losses) + 1e-3 else int(np.argmin(losses))],
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": steps, "maxfun": 2 * steps},
    ).x
    before, end = land.at(first), land.at(found)
    if before is None or end is None:
        verdict = "failed: the objective is not defined here"
        return Tuned(kernel, noise, verdict, evaluations=land.evaluations)
    # The whole step, or as much of it as makes neither the objective nor the held-back error worse.
    for share in (1.0, 0.5, 0.25, 0.125) if steps > FEW_STEPS else (1.0,):
        place = found if share == 1.0 else first + share * (found - first)
        after = land.at(place)
        if after is None or land.loss(place)[0] > land.loss(first)[0]:
            verdict = "kept: the objective would be worse"
        elif after.held_back < before.held_back:
            verdict = "kept: the held-back error would be worse"
        else:
            better = kernel.with_theta(place[:-1])
            noise = math.exp(place[-1])
            return Tuned(better, noise, TAKEN, before.value, after.value, land.evaluations)
    return Tuned(kernel, noise, verdict, before.value, end.value, land.evaluations)
