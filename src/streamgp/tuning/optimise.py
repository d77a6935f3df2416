"""Raise an objective by L-BFGS-B under a prior, over families too, and take only what predicts held-out rows no worse."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from ..kernels import Kernel, Matern, Scaled, SquaredExponential
from .families import NARROW, clipped, family_of, like, natural_kernel, prior_widths
from .objectives import Objective, SampleObjective, Value
from .start import NOISE_SHARE

# Iterations of the optimiser at a tuning; and where there is one after every batch, which starts where the last ended.
STEPS = 30
FEW_STEPS = 1
# The verdict on hyperparameters that were changed.
TAKEN = "taken"
# Iterations for a family other than the present one, which starts from what was found for that.
CHALLENGE_STEPS = 12
# Another family is taken if its log evidence, less the prior, is higher by this: odds of about 7 to 1.
CLEARLY = 2.0
# Multiples of the default length-scales where a tuning also looks, because all-noise is a local optimum.
STARTS = (1.0, 3.0, 0.3, 0.1, 0.03)
# The noise stays between these shares of the variance of the targets.
NOISE_BOUNDS = (1e-6, 10.0)


@dataclass(frozen=True)
class Search:
    """Where and how long to search.

    Attributes
    ----------
    centre : (p,)
        The mean of the prior, and what `bounds` are multiples of: the theta of the kernel that was given. Without a
        given kernel it is that of the sample's `natural_kernel`, anew at each tuning.
    bounds : (low, high)
    tune_noise : bool
    steps : int
    families : tuple of str
        What to choose from where no kernel was given.
    """

    centre: np.ndarray
    bounds: tuple[float, float]
    tune_noise: bool
    steps: int = STEPS
    families: tuple[str, ...] = ()


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
    objective = SampleObjective(X, clipped(y), kind)
    start_noise = NOISE_SHARE * objective.target_variance if search.tune_noise else noise
    if search.families:
        return _tune_families(objective, kernel, noise, search, start_noise)
    return tune(objective, kernel, noise, search, _starts(kernel, search.centre, start_noise))


def _starts(kernel: Kernel, centre: np.ndarray, noise: float) -> list[np.ndarray]:
    """Return other places to start from, theta and log noise: other length-scales, for kernels that have them."""
    base = kernel.split()[1]
    if not (isinstance(base, Scaled) and isinstance(base.kernel, SquaredExponential | Matern)):
        return []
    lengths = np.zeros(centre.size)
    lengths[1 : base.theta.size] = 1.0
    return [np.append(centre + math.log(factor) * lengths, math.log(noise)) for factor in STARTS]


def _tune_families(
    objective: SampleObjective, kernel: Kernel, noise: float, search: Search, start_noise: float
) -> Tuned:
    """Tune the present family, then each other one from there; take the best, if it is clearly better."""
    own, trend = family_of(kernel), kernel.split()[0] is not None
    others = [name for name in search.families if name != own] if search.steps > FEW_STEPS else []
    before = _PenalisedObjective(objective, kernel, kernel.theta).at(np.append(kernel.theta, math.log(noise)))
    found: list[tuple[float, Kernel, float, Value]] = []
    now, now_noise, evaluations = kernel, noise, 1
    for name in [own, *others]:
        natural = natural_kernel(name, objective.X, objective.target_variance, trend=trend)
        first = like(now, natural)
        land = _PenalisedObjective(objective, first, natural.theta, prior_widths(natural))
        places = [np.append(first.theta, math.log(now_noise))]
        if name == own:
            places += _starts(natural, natural.theta, start_noise)
        steps = search.steps if name == own else min(CHALLENGE_STEPS, search.steps)
        place = _climb(land, places, _limits(now_noise, search, objective.target_variance, natural.theta), steps)
        evaluations += land.evaluations
        after = land.at(place)
        if after is not None:
            loss = land.loss(place)[0] + (CLEARLY / objective.observations if name != own else 0.0)
            found.append((loss, first.with_theta(place[:-1]), math.exp(place[-1]), after))
            if name == own:
                now, now_noise = found[0][1:3]
    if before is None or not found:
        return Tuned(kernel, noise, "failed: the objective is not defined here", evaluations=evaluations)
    for _, tuned, tuned_noise, after in sorted(found, key=lambda item: item[0]):
        if after.held_out >= before.held_out:
            values = (before.value, after.value, evaluations)
            return Tuned(tuned, tuned_noise, TAKEN, *values)
    return Tuned(kernel, noise, "kept: the held-out error would be worse", before.value, evaluations=evaluations)


class _PenalisedObjective:
    """Objective less prior over the kernel's theta and log noise; each place is evaluated once."""

    def __init__(
        self, objective: Objective, kernel: Kernel, centre: np.ndarray, widths: np.ndarray | None = None
    ) -> None:
        self._objective, self._kernel, self._centre = objective, kernel, centre
        widths = np.full(centre.size, NARROW) if widths is None else widths
        self._strength = 1.0 / (objective.observations * widths**2)
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
        return float(0.5 * (self._strength * away**2).sum()) - now.value, pull - now.gradient


def tune(
    objective: Objective, kernel: Kernel, noise: float, search: Search, starts: list[np.ndarray] | None = None
) -> Tuned:
    """Maximise an objective less the prior over the kernel's theta and log noise, from the present values.

    `starts` are other places to start from if one is clearly better.
    """
    limits = _limits(noise, search, objective.target_variance, search.centre)
    land = _PenalisedObjective(objective, kernel, search.centre)
    found = _climb(land, [np.append(kernel.theta, math.log(noise)), *(starts or [])], limits, search.steps)
    return _accepted(land, kernel, noise, found, whole=search.steps <= FEW_STEPS)


def _climb(
    land: _PenalisedObjective, places: list[np.ndarray], limits: list[tuple[float, float]], steps: int
) -> np.ndarray:
    """Return the best place found from the first of `places`, or from another that is clearly better to start at."""
    low, high = np.array(limits).T
    # The present values may lie out of bounds themselves.
    places = [np.clip(place, low, high) for place in places]
    losses = [land.loss(place)[0] for place in places]
    first = places[0 if losses[0] <= min(losses) + 1e-3 else int(np.argmin(losses))]
    options = {"maxiter": steps, "maxfun": 2 * steps}
    found = scipy.optimize.minimize(
        land.loss, first, jac=True, method="L-BFGS-B", bounds=limits, options=options
    ).x
    return np.asarray(found)


def _limits(noise: float, search: Search, size: float, centre: np.ndarray) -> list[tuple[float, float]]:
    """Return the range of theta and log noise; `size` is the variance of the targets."""
    low, high = (math.log(bound) for bound in search.bounds)
    limits = [(c + low, c + high) for c in centre]
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
