"""Likelihoods: how labels are distributed about the latent function, and the sites by which it learns them."""

from .base import Likelihood, Observed, Tilted
from .counts import NegativeBinomial, Poisson
from .labels import Bernoulli
from .robust import StudentT
from .sites import Sites, find_sites

# The values of the argument `likelihood` beside "gaussian".
LIKELIHOODS: dict[str, type[Likelihood]] = {
    "student": StudentT,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
}

__all__ = [
    "LIKELIHOODS",
    "Bernoulli",
    "Likelihood",
    "NegativeBinomial",
    "Observed",
    "Poisson",
    "Sites",
    "StudentT",
    "Tilted",
    "find_sites",
]
