"""Raise an objective by L-BFGS-B under a prior, and take only a step that predicts held-out rows no worse."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from ..kernels import Kernel, Matern, Scaled, SquaredExponential
from .objectives import Objective, SampleObjective, Value
from .start import NOISE_SHARE

# Standard deviation of the prior on the logarithm of each hyperparameter about its start.
PRIOR = 0.6
# Iterations of the optimiser at a tuning; and where there is one after every batch, which starts where the last ended.
STEPS = 30
FEW_STEPS = 1
# The verdict on hyperparameters that were changed.
TAKEN = "taken"
# Multiples of the default length-scales where a tuning also looks, because all-noise is a local optimum.
STARTS = (1.0, 0.3, 0.1, 0.03)
# Targets are clipped to so many robust standard deviations from the median before they are tuned on.
OUTLYING = 10.0
# The noise stays between these shares of the variance of the targets.
NOISE_BOUNDS = (1e-6, 10.0)


@dataclass(frozen=True)
class Search:
    """Where and how long to search.

    Attributes
    ----------
    centre : (p,)
        The kernel's theta at the start of the stream: the mean of the prior, and what `bounds` are multiples of.
    bounds : (low, high)
    tune_noise : bool
    steps : int
    """

    centre: np.ndarray
    bounds: tuple[float, float]
    tune_noise: bool
    steps: int = STEPS


@dataclass(frozen=True)
class Tuned:
    """Hyperparameters after a tuning: the old ones unless `verdict` is "taken"."""

    kernel: Kernel
    noise: float
    verdict: str
    before: float = math.nan
    after: float = math.nan
    evaluations: int = 0


def nothing_to_learn(X: np.ndarray, y: np.ndarray) -> str:
    """Return why there is nothing to tune on in a sample, X (m, d) and y (m, q); empty if there is something."""
    if not float(y.std(axis=0).max()) > 1e-12 * float((y**2).mean()) ** 0.5:
        return "kept: the targets do not vary"
    return "kept: all rows are equal" if (X[0] == X).all() else ""


def tune_on_rows(
    kernel: Kernel, noise: float, X: np.ndarray, y: np.ndarray, *, kind: str, search: Search
) -> Tuned:
    """Tune the objective `kind` of the exact GP of a sample X (m, d), y (m, q). Raises nothing: see the verdict."""
    verdict = nothing_to_learn(X, y)
    if verdict:
        return Tuned(kernel, noise, verdict)
    objective = SampleObjective(X, _without_outliers(y), kind)
    starts = _starts(
        kernel, search.centre, NOISE_SHARE * objective.target_variance if search.tune_noise else noise
    )
    return tune(objective, kernel, noise, search, starts)


def _without_outliers(y: np.ndarray) -> np.ndarray:
    middle = np.median(y, axis=0)
    spread = 1.4826 * np.median(np.abs(y - middle), axis=0)
    reach = np.where(spread > 0, OUTLYING * spread, np.inf)
    return np.asarray(np.clip(y, middle - reach, middle + reach))


def _starts(kernel: Kernel, centre: np.ndarray, noise: float) -> list[np.ndarray]:
    """Return other places to start from, theta and log noise: shorter length-scales, for kernels that have them."""
    if not (isinstance(kernel, Scaled) and isinstance(kernel.kernel, SquaredExponential | Matern)):
        return []
    lengths = np.append(0.0, np.ones(centre.size - 1))
    return [np.append(centre + math.log(factor) * lengths, math.log(noise)) for factor in STARTS]


class _PenalisedObjective:
    """Objective less prior over the kernel's theta and log noise; each place is evaluated once."""

    def __init__(self, objective: Objective, kernel: Kernel, centre: np.ndarray) -> None:
        self._objective, self._kernel, self._centre = objective, kernel, centre
        self._strength = 1.0 / (objective.observations * PRIOR**2)
        self._known: dict[bytes, Value | None] = {}

    @property
    def evaluations(self) -> int:
        """The number of places looked at."""
        return len(self._known)

    def at(self, place: np.ndarray) -> Value | None:
        """Evaluate theta and log noise (p + 1,); None where the objective is not defined."""
        key = place.tobytes()
        if key not in self._known:
            try:
                now = self._objective(self._kernel.with_theta(place[:-1]), math.exp(place[-1]))
                defined = math.isfinite(now.value) and bool(np.isfinite(now.gradient).all())
                self._known[key] = now if defined else None
            except (ArithmeticError, np.linalg.LinAlgError):  # NumericalError is one, and so is an overflow
                self._known[key] = None
        return self._known[key]

    def loss(self, place: np.ndarray) -> tuple[float, np.ndarray]:
        """Return what is minimised, and its gradient."""
        now, away = self.at(place), place[:-1] - self._centre
        if now is None:
            return 1e10, np.zeros_like(place)
        pull = np.append(self._strength * away, 0.0)
        return float(0.5 * self._strength * (away**2).sum()) - now.value, pull - now.gradient


def tune(
    objective: Objective, kernel: Kernel, noise: float, search: Search, starts: list[np.ndarray] | None = None
) -> Tuned:
    """Maximise an objective less the prior over the kernel's theta and log noise, from the present values.

    `starts` are other places to start from if one is clearly better.
    """
    limits = _limits(noise, search, objective.target_variance)
    low, high = np.array(limits).T
    land, first = (
        _PenalisedObjective(objective, kernel, search.centre),
        np.append(kernel.theta, math.log(noise)),
    )
    # The present values may lie out of bounds themselves.
    places = [np.clip(place, low, high) for place in (first, *(starts or []))]
    losses = [land.loss(place)[0] for place in places]
    found = scipy.optimize.minimize(
        land.loss,
        places[0 if losses[0] <= min(losses) + 1e-3 else int(np.argmin(losses))],
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": search.steps, "maxfun": 2 * search.steps},
    ).x
    return _accepted(land, kernel, noise, found, whole=search.steps <= FEW_STEPS)


def _limits(noise: float, search: Search, size: float) -> list[tuple[float, float]]:
    """Return the range of theta and log noise; `size` is the variance of the targets."""
    low, high = (math.log(bound) for bound in search.bounds)
    limits = [(c + low, c + high) for c in search.centre]
    at = math.log(noise)
    if not search.tune_noise:
        return [*limits, (at, at)]
    floor, ceiling = (math.log(max(share * size, 1e-290)) for share in NOISE_BOUNDS)
    return [*limits, (min(floor, at), max(ceiling, at))]


def _accepted(
    land: _PenalisedObjective, kernel: Kernel, noise: float, found: np.ndarray, *, whole: bool
) -> Tuned:
    """Take the whole step, or as much of it as makes neither the objective nor the held-out error worse."""
    first = np.append(kernel.theta, math.log(noise))
    before, end = land.at(first), land.at(found)
    if before is None or end is None:
        verdict = "failed: the objective is not defined here"
        return Tuned(kernel, noise, verdict, evaluations=land.evaluations)
    for share in (1.0,) if whole else (1.0, 0.5, 0.25, 0.125):
        place = found if share == 1.0 else first + share * (found - first)
        after = land.at(place)
        if after is None or land.loss(place)[0] > land.loss(first)[0]:
            verdict = "kept: the objective would be worse"
        elif after.held_out < before.held_out:
            verdict = "kept: the held-out error would be worse"
        else:
            tuned = kernel.with_theta(place[:-1])
            noise = math.exp(place[-1])
            return Tuned(tuned, noise, TAKEN, before.value, after.value, evaluations=land.evaluations)
    return Tuned(kernel, noise, verdict, before.value, end.value, evaluations=land.evaluations)
