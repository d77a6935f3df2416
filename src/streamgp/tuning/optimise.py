"""Raise an objective by L-BFGS-B under a prior, over families too, and take only what predicts held-out rows no worse."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize

from ..gp.outputs import per_output, typical
from ..kernels import Kernel, Matern, Scaled, SquaredExponential
from .families import NARROW, clipped, family_of, like, natural_kernel, prior_widths
from .objectives import Objective, SampleObjective, Value
from .several import NOISE_OVER_AMPLITUDE, SeveralOutputs
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
    y = clipped(y)
    objective: SampleObjective | SeveralOutputs
    if y.shape[1] > 1 and kind == "evidence" and search.tune_noise and kernel.positive_semidefinite:
        rest = kernel.split()[1]
        objective = SeveralOutputs(X, y, float(np.mean((kernel if rest is None else rest).diag(X))))
    else:
        objective = SampleObjective(X, y, kind)
    if search.families:
        return _tune_families(objective, kernel, noise, search)
    return tune(objective, kernel, noise, search, _starts(objective, kernel, search.centre, noise, search))


def _starts(
    objective: SampleObjective | SeveralOutputs,
    kernel: Kernel,
    centre: np.ndarray,
    noise: np.ndarray,
    search: Search,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return other places to start from, theta and noise: other length-scales, for kernels that have them."""
    base = kernel.split()[1]
    thetas = []
    if isinstance(base, Scaled) and isinstance(base.kernel, SquaredExponential | Matern):
        lengths = np.zeros(centre.size)
        lengths[1 : base.theta.size] = 1.0
        thetas = [centre + math.log(factor) * lengths for factor in STARTS]
    if isinstance(objective, SeveralOutputs):
        given = [kernel.theta, *thetas]
        return [(theta, objective.best_noises(kernel.with_theta(theta), noise)) for theta in given]
    start = np.array([NOISE_SHARE * objective.noise_size]) if search.tune_noise else noise
    return [(theta, start) for theta in thetas]


def _tune_families(
    objective: SampleObjective | SeveralOutputs,
    kernel: Kernel,
    noise: np.ndarray,
    search: Search,
) -> Tuned:
    """Tune the present family, then each other one from there; take the best, if it is clearly better."""
    own, trend = family_of(kernel), kernel.split()[0] is not None
    others = [name for name in search.families if name != own] if search.steps > FEW_STEPS else []
    land = _PenalisedObjective(objective, kernel, kernel.theta)
    before = land.at(land.place(kernel.theta, noise))
    found: list[tuple[float, Tuned, float]] = []
    now, now_noise, evaluations = kernel, noise, 1
    for name in [own, *others]:
        natural = natural_kernel(name, objective.X, objective.noise_size, trend=trend)
        first = like(now, natural)
        land = _PenalisedObjective(objective, first, natural.theta, prior_widths(natural))
        starts = _starts(objective, natural, natural.theta, now_noise, search) if name == own else []
        places = [land.place(theta, values) for theta, values in [(first.theta, now_noise), *starts]]
        steps = search.steps if name == own else min(CHALLENGE_STEPS, search.steps)
        place = _climb(land, places, _limits(places[0], search, objective, natural.theta), steps)
        after, evaluations = land.at(place), evaluations + land.evaluations
        if after is None:
            continue
        tuned_kernel, tuned_noise = land.hyperparameters(place)
        tuned = Tuned(tuned_kernel, per_output(tuned_noise, noise.size), TAKEN, after=after.value)
        loss = land.loss(place)[0] + (CLEARLY / objective.observations if name != own else 0.0)
        found.append((loss, replace(tuned, amplitudes=after.amplitudes), after.held_out))
        if name == own:
            now, now_noise = tuned.kernel, tuned.noise
    if before is None or not found:
        return Tuned(kernel, noise, "failed: the objective is not defined here", evaluations=evaluations)
    for _, tuned, held_out in sorted(found, key=lambda item: item[0]):
        if held_out >= before.held_out:
            return replace(tuned, before=before.value, evaluations=evaluations)
    verdict = "kept: the held-out error would be worse"
    return Tuned(kernel, noise, verdict, before.value, found[0][1].after, evaluations)


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
    land = _PenalisedObjective(objective, kernel, search.centre)
    places = [land.place(theta, values) for theta, values in [(kernel.theta, noise), *(starts or [])]]
    found = _climb(land, places, _limits(places[0], search, objective, search.centre), search.steps)
    tuned = _accepted(land, places[0], found, whole=search.steps <= FEW_STEPS)
    if tuned.verdict != TAKEN:
        return replace(tuned, kernel=kernel, noise=noise)
    return replace(tuned, noise=per_output(tuned.noise, noise.size))


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


def _limits(
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
