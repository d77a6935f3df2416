"""Raise an objective by L-BFGS-B under a prior, and take only a step that predicts held-out rows no worse."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize

from ..gp.outputs import per_output, typical
from ..kernels import Kernel, Matern, Scaled, SquaredExponential
from ..labels import without_gaps
from .objectives import Objective, SampleObjective, Value
from .several import NOISE_OVER_AMPLITUDE, SeveralOutputs
from .start import MIN_ROWS, NOISE_SHARE

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
    """Hyperparameters after a tuning: the old ones unless `verdict` is "taken".

    Attributes
    ----------
    kernel : Kernel
    noise : (q,)
    amplitudes : (q,) or None
        What the targets' variances are to be divided by to fit kernel and noise; None where they stay.
    """

    kernel: Kernel
    noise: np.ndarray
    verdict: str
    before: float = math.nan
    after: float = math.nan
    evaluations: int = 0
    amplitudes: np.ndarray | None = None

    @property
    def factors(self) -> np.ndarray | None:
        """What targets are to be multiplied by to have the amplitude of the kernel, (q,); None where they stay."""
        return None if self.amplitudes is None or self.verdict != TAKEN else self.amplitudes**-0.5


def nothing_to_learn(X: np.ndarray, y: np.ndarray) -> str:
    """Return why there is nothing to tune on in a sample, X (m, d) and y (m, q); empty if there is something."""
    y = without_gaps(y)
    if not float(y.std(axis=0).max()) > 1e-12 * float((y**2).mean()) ** 0.5:
        return "kept: the targets do not vary"
    return "kept: all rows are equal" if (X[0] == X).all() else ""


def tune_on_rows(
    kernel: Kernel, noise: float | np.ndarray, X: np.ndarray, y: np.ndarray, *, kind: str, search: Search
) -> Tuned:
    """Tune the objective `kind` of the exact GP of a sample X (m, d), y (m, q). Raises nothing: see the verdict.

    The evidence of several outputs is that of an amplitude and a noise for each; other objectives, and a noise that is
    given, have one noise for all.
    """
    verdict, noise = nothing_to_learn(X, y), per_output(noise, y.shape[1])
    if verdict:
        return Tuned(kernel, noise, verdict)
    y = _without_outliers(y)
    if y.shape[1] > 1 and kind == "evidence" and search.tune_noise and kernel.positive_semidefinite:
        several = SeveralOutputs(X, y, float(np.mean(kernel.diag(X))))
        thetas = [kernel.theta, *_starts(kernel, search.centre)]
        starts = [(theta, several.best_noises(kernel.with_theta(theta), noise)) for theta in thetas]
        return tune(several, kernel, noise, search, starts)
    objective = SampleObjective(*_without_missing(X, y), kind)
    if len(objective.X) < min(MIN_ROWS, len(X)):
        return Tuned(kernel, noise, "kept: too many labels are missing")
    start = np.array([NOISE_SHARE * objective.noise_size]) if search.tune_noise else noise
    starts = [(theta, start) for theta in _starts(kernel, search.centre)]
    return tune(objective, kernel, noise, search, starts)


def _without_missing(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows X (m, d) and outputs y (m, q) without missing labels that leave most labels."""
    known = ~np.isnan(y)
    if known.all():
        return X, y
    order = np.argsort(-known.sum(axis=0), kind="stable")
    rows = np.logical_and.accumulate(known[:, order], axis=1)  # (m, q): the first k outputs have a label
    k = int(np.argmax(rows.sum(axis=0) * (1 + np.arange(order.size)))) + 1
    return X[rows[:, k - 1]], y[np.ix_(rows[:, k - 1], order[:k])]


def _without_outliers(y: np.ndarray) -> np.ndarray:
    whole = without_gaps(y)
    middle = np.median(whole, axis=0)
    spread = 1.4826 * np.median(np.abs(whole - middle), axis=0)
    reach = np.where(spread > 0, OUTLYING * spread, np.inf)
    return np.asarray(np.clip(y, middle - reach, middle + reach))


def _starts(kernel: Kernel, centre: np.ndarray) -> list[np.ndarray]:
    """Return other thetas to start from: shorter length-scales, for kernels that have them."""
    if not (isinstance(kernel, Scaled) and isinstance(kernel.kernel, SquaredExponential | Matern)):
        return []
    lengths = np.append(0.0, np.ones(centre.size - 1))
    return [centre + math.log(factor) * lengths for factor in STARTS]


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
        """Evaluate theta and log noises; None where the objective is not defined."""
        key = place.tobytes()
        if key not in self._known:
            try:
                now = self._objective(*self.hyperparameters(place))
                defined = math.isfinite(now.value) and bool(np.isfinite(now.gradient).all())
                self._known[key] = now if defined else None
            except (ArithmeticError, np.linalg.LinAlgError):  # NumericalError is one, and so is an overflow
                self._known[key] = None
        return self._known[key]

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
        return float(0.5 * self._strength * (away**2).sum()) - now.value, pull - now.gradient


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
    noise, separate = np.atleast_1d(noise), isinstance(objective, SeveralOutputs)

    def place_of(theta: np.ndarray, noise: np.ndarray) -> np.ndarray:
        return np.append(theta, [math.log(value) for value in (noise if separate else [typical(noise)])])

    limits = _limits(place_of(kernel.theta, noise), search, objective)
    low, high = np.array(limits).T
    land, first = _PenalisedObjective(objective, kernel, search.centre), place_of(kernel.theta, noise)
    # The present values may lie out of bounds themselves.
    places = [np.clip(place, low, high) for place in (first, *(place_of(*start) for start in starts or []))]
    losses = [land.loss(place)[0] for place in places]
    found = scipy.optimize.minimize(
        land.loss,
        places[0 if losses[0] <= min(losses) + 1e-3 else int(np.argmin(losses))],
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": search.steps, "maxfun": 2 * search.steps},
    ).x
    if isinstance(objective, SeveralOutputs):
        # What was all noise under the first length-scales need not be so under these.
        tuned_kernel, noises = land.hyperparameters(found)
        other = np.clip(place_of(tuned_kernel.theta, objective.best_noises(tuned_kernel, noises)), low, high)
        found = other if land.loss(other)[0] < land.loss(found)[0] else found
    tuned = _accepted(land, first, found, whole=search.steps <= FEW_STEPS)
    if tuned.verdict != TAKEN:
        return replace(tuned, kernel=kernel, noise=noise)
    return replace(tuned, noise=per_output(tuned.noise, noise.size))


def _limits(place: np.ndarray, search: Search, objective: Objective) -> list[tuple[float, float]]:
    """Return the range of theta and log noises about the present values."""
    low, high = (math.log(bound) for bound in search.bounds)
    limits, noises = [(c + low, c + high) for c in search.centre], place[search.centre.size :].tolist()
    if not search.tune_noise:
        return [*limits, *((at, at) for at in noises)]
    shares = NOISE_OVER_AMPLITUDE if isinstance(objective, SeveralOutputs) else NOISE_BOUNDS
    floor, ceiling = (math.log(max(share * objective.noise_size, 1e-290)) for share in shares)
    return [*limits, *((min(floor, at), max(ceiling, at)) for at in noises)]


def _accepted(land: _PenalisedObjective, first: np.ndarray, found: np.ndarray, *, whole: bool) -> Tuned:
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
