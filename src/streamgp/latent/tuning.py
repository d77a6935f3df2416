"""Tuning of a latent model on a sample of rows: kernel by evidence, parameters of likelihoods by left-out labels.

Where sites have converged, the derivatives of the evidence that expectation propagation gives are those of the
Gaussian evidence of the sites as they are (Seeger, Expectation propagation for exponential families, 2005); so the two
are sought in turn. The parameters of a likelihood maximise the density of each label as predicted from all others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize

from .._arrays import cholesky, inverse_from
from ..gp.posterior import log_density
from ..kernels import Kernel
from ..likelihoods import Likelihood, Sites
from ..tuning.families import family_of
from ..tuning.objectives import SampleObjective, Value
from ..tuning.on_rows import contest
from ..tuning.optimise import TAKEN, Search, Tuned, tune
from ..tuning.reservoir import Reservoir
from .model import LatentModel

# Turns of sites and hyperparameters, with the iterations of each; families are compared in the first.
TURNS = (30, 12, 12)
# Rows that are tuned on where there is one column of labels; of q columns q^(1/3) times fewer, for the same cost.
ROWS = 500
# Range of a typical noise of sites.
NOISES = (1e-6, 1e3)


@dataclass(frozen=True)
class SitesObjective(SampleObjective):
    """The log evidence of pseudo-observations y (m, q) of given weights (m, q); O(q m³).

    `noise` is one; `size` is the variance of the latent functions before any tuning.
    """

    weights: np.ndarray | None = None
    size: float = 1.0

    @property
    def noise_size(self) -> float:
        """See Objective."""
        return self.size

    def __call__(self, kernel: Kernel, noise: float | np.ndarray) -> Value:
        """See Objective."""
        assert self.weights is not None
        K, m = kernel.block(self.X), len(self.X)
        W, value, held_out = np.zeros((m, m)), 0.0, 0.0
        for z, w in zip(self.y.T, self.weights.T, strict=True):
            C = K.copy()
            C[np.diag_indices(m)] += 1.0 / w
            L = cholesky(C, "the kernel matrix of the sample")
            inverse = inverse_from(L, "the kernel matrix of the sample")
            alpha = inverse @ z
            value += log_density(float(z @ alpha), 2.0 * float(np.log(L.diagonal()).sum()), m, 1)
            W += 0.5 * (alpha[:, None] * alpha[None, :] - inverse)
            precision = inverse.diagonal()
            held_out += float((0.5 * np.log(precision) - 0.5 * alpha**2 / precision).mean())
        gradient = np.append(kernel.gradient(W, self.X), 0.0) / self.y.size
        return Value(value / self.y.size, gradient, held_out / self.y.shape[1])


def tune_model(
    model: LatentModel, sample: Reservoir, y: np.ndarray, search: Search
) -> tuple[LatentModel, Tuned]:
    """Tune a model on a sample of which y (m, q) are the labels in its units. Raises nothing: see the verdict."""
    chosen = np.sort(np.argsort(sample.keys, kind="stable")[: round(ROWS * y.shape[1] ** (-1 / 3))])
    X, y, copies = sample.X[chosen], y[chosen], sample.weights[chosen]
    kept, one = Tuned(model.kernel, np.ones(1), ""), np.ones(1)
    if (X[0] == X).all():
        return model, replace(kept, verdict="kept: all rows are equal")
    now, sites = model, model.sites(X, y, copies)
    before, evaluations = _left_out(now, sites, y, copies), 0
    for turn, steps in enumerate(TURNS if search.steps > 1 else (search.steps,)):
        now = replace(now, likelihoods=_parameters_tuned(now.likelihoods, sites, y, copies))
        z, w = (np.stack([getattr(each, name) for each in sites], axis=1) for name in ("z", "w"))
        objective = SitesObjective(X, z - now.level, "evidence", weights=w, size=model.size)
        families = (family_of(now.kernel),) if search.families and turn else search.families
        wanted = replace(search, steps=steps, tune_noise=False, families=families)
        find = contest if families else tune
        found = find(objective, now.kernel, one, wanted)
        evaluations += found.evaluations
        now = replace(now, kernel=found.kernel if found.verdict == TAKEN else now.kernel)
        sites = now.sites(X, y, copies)
    after = _left_out(now, sites, y, copies)
    if not after >= before:
        verdict = "kept: left-out labels would be predicted worse"
        return model, replace(kept, verdict=verdict, before=before, after=after, evaluations=evaluations)
    typical = float(np.clip(np.median([1.0 / each.w for each in sites]), *NOISES))
    now = replace(now, noise=typical)
    return now, Tuned(now.kernel, np.full(1, typical), TAKEN, before, after, evaluations)


def _left_out(model: LatentModel, sites: list[Sites], y: np.ndarray, copies: np.ndarray) -> float:
    """Return the mean log density of the labels y (m, q) of weights (m,), each predicted from all others."""
    each = zip(model.likelihoods, sites, y.T, strict=True)
    densities = [found.left_out(likelihood, labels).log_z for likelihood, found, labels in each]
    return float(np.average(np.mean(densities, axis=0), weights=copies))


def _parameters_tuned(
    likelihoods: tuple[Likelihood, ...], sites: list[Sites], y: np.ndarray, copies: np.ndarray
) -> tuple[Likelihood, ...]:
    """Return the likelihoods with the parameters that predict left-out labels y (m, q) best, for cavities as found."""

    def best(likelihood: Likelihood, found: Sites, labels: np.ndarray) -> Likelihood:
        if not likelihood.ranges:
            return likelihood

        def loss(place: np.ndarray) -> float:
            left_out = found.left_out(likelihood.with_parameters(place), labels)
            return -float(np.average(left_out.log_z, weights=copies))

        # From where they would begin, too: few rows may have led them astray.
        starts = [likelihood.parameters, type(likelihood)().parameters]
        places = [
            scipy.optimize.minimize(loss, start, method="L-BFGS-B", bounds=likelihood.ranges).x
            for start in starts
        ]
        return likelihood.with_parameters(min([likelihood.parameters, *places], key=loss))

    return tuple(best(*each) for each in zip(likelihoods, sites, y.T, strict=True))
