"""LatentModel: a kernel, and for each column of labels a likelihood and the level of its latent function."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..errors import ParameterError
from ..kernels import Kernel, dictionary
from ..likelihoods import LIKELIHOODS, Bernoulli, Likelihood, Sites, find_sites
from ..parameters import Settings, given_kernel
from ..tuning.families import TREND_SHARE, clipped, families_of, natural_kernel, spread

# The likelihood of StreamingGPClassifier, which is no argument of the regressor.
BERNOULLI = "bernoulli"


@dataclass(frozen=True)
class LatentModel:
    """The prior and the likelihoods of q columns of labels; all latent functions have one kernel.

    Attributes
    ----------
    kernel : Kernel
    likelihoods : tuple of Likelihood, (q,)
    level : (q,)
        What is added to the latent functions, whose prior mean is zero.
    size : float
        The mean variance of the latent functions, as guessed from the labels.
    noise : float
        The typical noise variance of a site: what inducing points are chosen by, no part of the model.
    """

    kernel: Kernel
    likelihoods: tuple[Likelihood, ...]
    level: np.ndarray
    size: float
    noise: float = 1.0

    def sites(self, X: np.ndarray, y: np.ndarray, copies: np.ndarray) -> list[Sites]:
        """Return the sites of labels y (m, q) at rows X (m, d) of weights (m,) before any other row; O(q m³)."""
        K = np.asarray(self.kernel.block(X), dtype=np.float64)
        return [
            find_sites(likelihood, y[:, j], np.full(len(X), self.level[j]), K, copies)
            for j, likelihood in enumerate(self.likelihoods)
        ]


def likelihood_of(settings: Settings) -> Likelihood:
    """Return the likelihood that an argument names, with its parameters where they start."""
    return Bernoulli() if settings.likelihood == BERNOULLI else LIKELIHOODS[settings.likelihood]()


def first_model(
    settings: Settings, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None
) -> LatentModel:
    """Return the model of the first rows X (n, d) with labels y (n, q) of weights (n,) before any tuning."""
    own = np.ones(len(y)) if weights is None else weights
    begun = [likelihood_of(settings).begun(column, own) for column in y.T]
    likelihoods, levels, variances = zip(*begun, strict=True)
    size = float(np.mean(variances))
    kernel = given_kernel(settings, X.shape[1])
    if kernel is not None and kernel.nugget:
        raise ParameterError(
            f"kernel={kernel} holds white noise, and so does likelihood={settings.likelihood!r}; leave White out"
        )
    if kernel is None:
        families, trend = families_of(settings.kernel), X.shape[1] <= TREND_SHARE * settings.most_features
        if families:
            kernel = natural_kernel(families[0], X.astype(np.float64), size, trend=trend)
        else:
            wide = dictionary(spread(clipped(X.astype(np.float64))) * X.shape[1] ** 0.5)
            kernel = wide.with_amounts(size * wide.amounts)
    return LatentModel(kernel, tuple(likelihoods), np.array(levels), size)


def begun_again(model: LatentModel, y: np.ndarray, weights: np.ndarray) -> LatentModel:
    """Return the model with levels and size from more labels y (n, q) of weights (n,); parameters stay."""
    begun = [each.begun(column, weights) for each, column in zip(model.likelihoods, y.T, strict=True)]
    levels, sizes = np.array([level for _, level, _ in begun]), [variance for _, _, variance in begun]
    return replace(model, level=levels, size=float(np.mean(sizes)))
