"""Tuning on a sample of rows: where the search starts, and the contest of families where no kernel was given."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ..gp.outputs import per_output
from ..kernels import Kernel, Matern, Scaled, SquaredExponential
from ..labels import without_gaps
from ..row_weights import typical_weight
from .disturbances import Disturbance, likely_disturbance
from .families import clipped, family_of, like, natural_kernel, prior_widths
from .objectives import SampleObjective
from .optimise import FEW_STEPS, TAKEN, PenalisedObjective, Search, Tuned, climb, limits_of, tune
from .several import SeveralOutputs
from .start import MIN_ROWS, NOISE_SHARE

# Multiples of the default length-scales where a tuning also looks, because all-noise is a local optimum.
STARTS = (1.0, 3.0, 0.3, 0.1, 0.03)
# Iterations for a family other than the present one, which starts from what was found for that: a few, and more if its
# log evidence is not lower than the best by FAR, and FAR_EACH for each observation: these would not make up for that.
TRIAL_STEPS, CHALLENGE_STEPS = 4, 12
FAR, FAR_EACH = 20.0, 0.05
# Another family is taken if its log evidence, less the prior, is higher by this: odds of about 7 to 1.
CLEARLY = 2.0
# Copies of an input that are tuned on, and how many times as frequent as the median input one may be.
COPIES = 5

OnRows: TypeAlias = SampleObjective | SeveralOutputs


def nothing_to_learn(X: np.ndarray, y: np.ndarray) -> str:
    """Return why there is nothing to tune on in a sample, X (m, d) and y (m, q); empty if there is something."""
    y = without_gaps(y)
    if not float(y.std(axis=0).max()) > 1e-12 * float((y**2).mean()) ** 0.5:
        return "kept: the targets do not vary"
    return "kept: all rows are equal" if (X[0] == X).all() else ""


def tune_on_rows(
    kernel: Kernel,
    noise: float | np.ndarray,
    X: np.ndarray,
    y: np.ndarray,
    *,
    kind: str,
    search: Search,
    numbers: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> Tuned:
    """Tune the objective `kind` of the exact GP of a sample X (m, d), y (m, q). Raises nothing: see the verdict.

    The evidence of several outputs is that of an amplitude and a noise for each; other objectives, and a noise that is
    given, have one noise for all. `numbers` (m,) are the places of the rows in the stream: where no kernel was given,
    noise that lasts for some rows is tried beside independent noise. A row of weight w, (m,), has the noise σ²/w.
    """
    verdict, noise = nothing_to_learn(X, y), per_output(noise, y.shape[1])
    if verdict:
        return Tuned(kernel, noise, verdict)
    kept, noises = _without_copies(X), None
    if weights is not None and (weights != 1).any():
        # Sought is the noise of a typical row, so that where a search begins and ends does not depend on units.
        typical = typical_weight(weights) if search.tune_noise else 1.0
        if abs(np.log(typical)) > 1e-9:
            same = weights / typical
            same_noise = tune_on_rows(
                kernel, noise / typical, X, y, kind=kind, search=search, numbers=numbers, weights=same
            )
            return replace(same_noise, noise=same_noise.noise * typical)
        noises = np.diag(1.0 / weights[kept])
    X, y = X[kept], clipped(y)[kept]
    objective: OnRows
    if y.shape[1] > 1 and kind == "evidence" and search.tune_noise and kernel.positive_semidefinite:
        rest = kernel.split()[1]
        objective = SeveralOutputs(X, y, float(np.mean((kernel if rest is None else rest).diag(X))), noises)
    else:
        rows, outputs = _without_missing(y)
        noises = noises if noises is None else noises[np.ix_(rows, rows)]
        objective = SampleObjective(X[rows], y[np.ix_(rows, outputs)], kind, noises)
        if len(objective.X) < min(MIN_ROWS, len(X)):
            return Tuned(kernel, noise, "kept: too many labels are missing")
    if search.families:
        found = None
        if (
            numbers is not None
            and kind == "evidence"
            and search.steps > FEW_STEPS
            and len(objective.X) == len(X)
        ):
            found = likely_disturbance(objective, numbers[kept])
        return contest(objective, kernel, noise, search, found)
    return tune(objective, kernel, noise, search, _starts(objective, kernel, search.centre, noise, search))


def _without_copies(X: np.ndarray) -> np.ndarray:
    """Return which rows X (m, d) to tune on, (m,): not most copies of an input that is far more frequent than others.

    A sensor that stands still sends one input again and again, and its noise is not that of the stream.
    """
    _, which, counts = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    most = max(COPIES, COPIES * int(np.median(counts)))
    if counts.max() <= most:
        return np.ones(len(X), dtype=bool)
    which = which.reshape(-1)
    order = np.argsort(which, kind="stable")
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    number = np.empty(len(X), dtype=np.int64)
    number[order] = np.arange(len(X)) - np.repeat(first, counts)  # of each row among its copies
    return number < most


def _without_missing(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the rows and outputs of y (m, q) without missing labels that leave most labels."""
    known = ~np.isnan(y)
    if known.all():
        return np.arange(y.shape[0]), np.arange(y.shape[1])
    order = np.argsort(-known.sum(axis=0), kind="stable")
    rows = np.logical_and.accumulate(known[:, order], axis=1)  # (m, q): the first k outputs have a label
    k = int(np.argmax(rows.sum(axis=0) * (1 + np.arange(order.size)))) + 1
    return np.flatnonzero(rows[:, k - 1]), order[:k]


def _starts(
    objective: OnRows,
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


@dataclass(frozen=True)
class _Entrant:
    """A family as far as it was tuned: the loss, what was found, and how well held-out rows are predicted."""

    loss: float
    tuned: Tuned
    held_out: float


def contest(
    objective: OnRows,
    kernel: Kernel,
    noise: np.ndarray,
    search: Search,
    disturbance: Disturbance | None = None,
) -> Tuned:
    """Tune the present family, then others from there; take the best, if it is clearly better.

    The present family is tuned with independent noise and with a disturbance that may be there; the other families with
    what has more evidence of the two.
    """
    own, start = family_of(kernel), Tuned(kernel, noise, TAKEN)
    taken: Disturbance | None = None
    best = _entrant(objective, own, start, search, search.steps, anew=True)
    evaluations = 0 if best is None else best.tuned.evaluations
    if disturbance is not None:
        lasting = replace(objective, disturbance=disturbance.correlation)
        other = _entrant(lasting, own, start, search, search.steps, anew=True)
        evaluations += 0 if other is None else other.tuned.evaluations
        if other is not None and (best is None or other.loss < best.loss - CLEARLY / objective.observations):
            objective, best, taken = lasting, other, disturbance
    land = PenalisedObjective(objective, kernel, kernel.theta)
    before = land.at(land.place(kernel.theta, noise))
    if before is None or best is None:
        return Tuned(kernel, noise, "failed: the objective is not defined here")
    entrants = [best]
    for name in search.families if search.steps > FEW_STEPS else ():
        trial = None if name == own else _entrant(objective, name, best.tuned, search, TRIAL_STEPS)
        if trial is None:
            continue
        evaluations += trial.tuned.evaluations
        if trial.loss > min(e.loss for e in entrants) + FAR / objective.observations + FAR_EACH:
            continue
        whole = _entrant(objective, name, trial.tuned, search, CHALLENGE_STEPS)
        if whole is not None:
            evaluations += whole.tuned.evaluations
            entrants.append(replace(whole, loss=whole.loss + CLEARLY / objective.observations))
    for entrant in sorted(entrants, key=lambda e: e.loss):
        if entrant.held_out >= before.held_out:
            tuned = replace(entrant.tuned, before=before.value, evaluations=evaluations)
            return tuned if taken is None else replace(tuned, noise_correlation=taken.at_lags)
    verdict = "kept: the held-out error would be worse"
    return Tuned(kernel, noise, verdict, before.value, best.tuned.after, evaluations)


def _entrant(
    objective: OnRows, family: str, start: Tuned, search: Search, steps: int, *, anew: bool = False
) -> _Entrant | None:
    """Tune a family from what was found for it or another; `anew`: other length-scales are tried, too."""
    trend = start.kernel.split()[0] is not None
    natural = natural_kernel(family, objective.X, objective.noise_size, trend=trend)
    first = like(start.kernel, natural)
    land = PenalisedObjective(objective, first, natural.theta, prior_widths(natural))
    others = _starts(objective, natural, natural.theta, start.noise, search) if anew else []
    if isinstance(objective, SeveralOutputs) and not anew:
        others = [(first.theta, objective.best_noises(first, start.noise))]
    places = [land.place(theta, values) for theta, values in [(first.theta, start.noise), *others]]
    place = climb(land, places, limits_of(places[0], search, objective, natural.theta), steps)
    after = land.at(place)
    if after is None:
        return None
    kernel, noise = land.hyperparameters(place)
    tuned = Tuned(kernel, per_output(noise, start.noise.size), TAKEN, after=after.value)
    tuned = replace(tuned, evaluations=land.evaluations, amplitudes=after.amplitudes)
    return _Entrant(land.loss(place)[0], tuned, after.held_out)
