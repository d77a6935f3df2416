"""Raise an objective by L-BFGS-B under a prior, and take only a step that predicts held-out rows no worse."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize

from ..gp.outputs import per_output, typical
from ..kernels import Kernel
from .families import NARROW
from .objectives import Objective, Value
from .several import NOISE_OVER_AMPLITUDE, SeveralOutputs

# Iterations of the optimiser at a tuning; and where there is one after every batch, which starts where the last ended.
STEPS = 30
FEW_STEPS = 1
# The verdict on hyperparameters that were changed.
TAKEN = "taken"
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
    """Hyperparameters after a tuning: the old ones unless `verdict` is "taken".

    Attributes
    ----------
    kernel : Kernel
    noise : (q,)
    amplitudes : (q,) or None
        What the targets' variances are to be divided by to fit kernel and noise; None where they stay.
    noise_correlation : tuple of float
        The autocorrelation of the noise at the lags 1, 2, … rows; () for independent noise (`disturbances`).
    """

    kernel: Kernel
    noise: np.ndarray
    verdict: str
    before: float = math.nan
    after: float = math.nan
    evaluations: int = 0
    amplitudes: np.ndarray | None = None
    noise_correlation: tuple[float, ...] = ()

    @property
    def factors(self) -> np.ndarray | None:
        """What targets are to be multiplied by to have the amplitude of the kernel, (q,); None where they stay."""
        return None if self.amplitudes is None or self.verdict != TAKEN else self.amplitudes**-0.5


# What this thread calls before each evaluation, if anything.
_each = threading.local()


def _nothing() -> None:
    """Do nothing."""


@contextmanager
def following_steps(call: Callable[[], None]) -> Iterator[None]:
    """Call a function before each evaluation that this thread makes; what it raises ends the search."""
    _each.call = call
    try:
        yield
    finally:
        del _each.call


class PenalisedObjective:
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
        """Evaluate theta and log noises; None where the objective is not defined."""
        key = place.tobytes()
        if key not in self._known:
            getattr(_each, "call", _nothing)()
            try:
                now = self._objective(*self.hyperparameters(place))
                defined = math.isfinite(now.value) and bool(np.isfinite(now.gradient).all())
                self._known[key] = now if defined else None
            except (ArithmeticError, np.linalg.LinAlgError):  # NumericalError is one, and so is an overflow
                self._known[key] = None
        return self._known[key]

    def place(self, theta: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return theta and the logarithms of the noises that the objective has, one for all outputs or one for each."""
        separate = isinstance(self._objective, SeveralOutputs)
        return np.append(theta, [math.log(value) for value in (noise if separate else [typical(noise)])])

    def hyperparameters(self, place: np.ndarray) -> tuple[Kernel, np.ndarray]:
        """Return kernel and noises of a place."""
        p = self._centre.size
        return self._kernel.with_theta(place[:p]), np.array([math.exp(value) for value in place[p:]])

    def loss(self, place: np.ndarray) -> tuple[float, np.ndarray]:
        """Return what is minimised, and its gradient."""
        p = self._centre.size
        now, away = self.at(place), place[:p] - self._centre
        if now is None:
            return 1e10, np.zeros_like(place)
        pull = np.append(self._strength * away, np.zeros(place.size - p))
        return float(0.5 * (self._strength * away**2).sum()) - now.value, pull - now.gradient


def tune(
    objective: Objective,
    kernel: Kernel,
    noise: float | np.ndarray,
    search: Search,
    starts: list[tuple[np.ndarray, np.ndarray]] | None = None,
) -> Tuned:
    """Maximise an objective less the prior over the kernel's theta and log noise (q,), from the present values.

    `starts` are other thetas and noises to start from if one is clearly better.
    """
    noise = np.atleast_1d(noise)
    land = PenalisedObjective(objective, kernel, search.centre)
    places = [land.place(theta, values) for theta, values in [(kernel.theta, noise), *(starts or [])]]
    found = climb(land, places, limits_of(places[0], search, objective, search.centre), search.steps)
    tuned = _accepted(land, places[0], found, whole=search.steps <= FEW_STEPS)
    if tuned.verdict != TAKEN:
        return replace(tuned, kernel=kernel, noise=noise)
    return replace(tuned, noise=per_output(tuned.noise, noise.size))


def climb(
    land: PenalisedObjective, places: list[np.ndarray], limits: list[tuple[float, float]], steps: int
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


def limits_of(
    place: np.ndarray, search: Search, objective: Objective, centre: np.ndarray
) -> list[tuple[float, float]]:
    """Return the range of theta about the centre of the prior, and of log noises about the present values."""
    low, high = (math.log(bound) for bound in search.bounds)
    limits, noises = [(c + low, c + high) for c in centre], place[centre.size :].tolist()
    if not search.tune_noise:
        return [*limits, *((at, at) for at in noises)]
    shares = NOISE_OVER_AMPLITUDE if isinstance(objective, SeveralOutputs) else NOISE_BOUNDS
    floor, ceiling = (math.log(max(share * objective.noise_size, 1e-290)) for share in shares)
    return [*limits, *((min(floor, at), max(ceiling, at)) for at in noises)]


def _accepted(land: PenalisedObjective, first: np.ndarray, found: np.ndarray, *, whole: bool) -> Tuned:
    """Take the whole step, or as much of it as makes neither the objective nor the held-out error worse."""
    before, end = land.at(first), land.at(found)
    if before is None or end is None:
        verdict = "failed: the objective is not defined here"
        return Tuned(*land.hyperparameters(first), verdict, evaluations=land.evaluations)
    for share in (1.0,) if whole else (1.0, 0.5, 0.25, 0.125):
        place = found if share == 1.0 else first + share * (found - first)
        after = land.at(place)
        if after is None or land.loss(place)[0] > land.loss(first)[0]:
            verdict = "kept: the objective would be worse"
        elif after.held_out < before.held_out:
            verdict = "kept: the held-out error would be worse"
        else:
            kernel, noise = land.hyperparameters(place)
            values = (before.value, after.value, land.evaluations)
            return Tuned(kernel, noise, TAKEN, *values, amplitudes=after.amplitudes)
    kernel, noise = land.hyperparameters(first)
    return Tuned(kernel, noise, verdict, before.value, end.value, land.evaluations)
