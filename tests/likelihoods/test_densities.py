"""Likelihoods: moments, quantiles and draws are those of the density, found again by brute force."""

import numpy as np
import pytest
from scipy import stats

from streamgp.errors import InputError
from streamgp.likelihoods import Bernoulli, NegativeBinomial, Poisson, StudentT

# Each with its density in y and some observations.
KINDS = [
    (Poisson(), lambda y, f: stats.poisson.logpmf(y, np.exp(f)), [0.0, 1.0, 7.0, 400.0]),
    (
        NegativeBinomial(2.5),
        lambda y, f: stats.nbinom.logpmf(y, 2.5, 2.5 / (2.5 + np.exp(f))),
        [0.0, 3.0, 50.0],
    ),
    (StudentT(3.0, 0.4), lambda y, f: stats.t.logpdf(y, 3.0, f, 0.4), [0.0, 1.3, -9.0]),
    (StudentT(60.0, 0.05), lambda y, f: stats.t.logpdf(y, 60.0, f, 0.05), [0.2, -4.0]),
    (Bernoulli(), lambda y, f: -np.logaddexp(0.0, np.where(y > 0, -f, f)), [0.0, 1.0]),
]
CAVITIES = [(0.0, 1.0), (2.0, 0.05), (-1.0, 2.0)]


def integrated(log_density, y, mean, variance):
    """Log normaliser, mean and variance of N(f | mean, variance) p(y | f) on a fine grid."""
    near = [mean, y, np.log1p(max(y, 0.0))]
    f = np.unique(np.concatenate([center + np.linspace(-9, 9, 40_001) for center in near]))
    f = f[np.abs(f) < 20]
    logs = log_density(y, f) + stats.norm.logpdf(f, mean, np.sqrt(variance))
    top = logs.max()
    each = np.exp(logs - top)
    total = np.trapezoid(each, f)
    center = np.trapezoid(each * f, f) / total
    return np.log(total) + top, center, np.trapezoid(each * (f - center) ** 2, f) / total


@pytest.mark.parametrize(("likelihood", "log_density", "labels"), KINDS, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("cavity", CAVITIES)
def test_the_moments_are_those_of_the_product_with_a_normal_density(likelihood, log_density, labels, cavity):
    y = np.array(labels)
    found = likelihood.tilted(y, *(np.full(y.size, v) for v in cavity))
    for i, label in enumerate(labels):
        log_z, center, variance = integrated(log_density, label, *cavity)
        # Of 32 nodes about the mode; the widest cavity is not normal there.
        assert abs(found.log_z[i] - log_z) < 2e-5
        assert abs(found.mean[i] - center) < 1e-4 * variance**0.5
        assert abs(found.variance[i] / variance - 1) < 2e-4


@pytest.mark.parametrize("likelihood", [kind[0] for kind in KINDS], ids=lambda v: type(v).__name__)
def test_mean_variance_and_quantiles_are_those_of_many_draws(likelihood):
    rng, n = np.random.RandomState(0), 200_000
    mean, variance = np.array([0.5, 2.0, -1.0]), np.array([0.3, 0.01, 0.8])
    drawn = likelihood.draw(mean + np.sqrt(variance) * rng.standard_normal((n, 3)), rng)
    found = likelihood.observed(mean, variance)
    assert np.abs(drawn.mean(axis=0) - found.mean).max() < 6 * (found.variance.max() / n) ** 0.5
    if likelihood != StudentT(3.0, 0.4):  # the fourth moment is infinite
        assert np.allclose(drawn.var(axis=0), found.variance, rtol=0.05)
    for probability in (0.05, 0.5, 0.95):
        quantile = likelihood.quantile(probability, mean, variance)
        share = (drawn <= quantile + 1e-12).mean(axis=0)
        below = (drawn < quantile - 1e-12).mean(axis=0)
        # Of whole numbers the least one of which enough lies at or below it.
        assert (share > probability - 0.005).all()
        assert (below < probability + 0.005).all()


@pytest.mark.parametrize(
    ("likelihood", "wrong", "words"),
    [
        (Poisson(), [1.0, -1.0], "y of row 1 is -1, which is no count"),
        (NegativeBinomial(), [0.5], "y of row 0 is 0.5"),
        (Poisson(), [np.inf], "inf"),
        (Bernoulli(), [0.0, 2.0], "labels are 0 and 1"),
        (StudentT(), [np.nan], "NaN"),
    ],
)
def test_a_label_that_cannot_be_is_refused_with_its_row(likelihood, wrong, words):
    with pytest.raises(InputError, match=words):
        likelihood.check(np.array(wrong))


@pytest.mark.parametrize("likelihood", [NegativeBinomial(0.7), StudentT(5.0, 0.2)])
def test_parameters_survive_their_logarithms_and_stay_in_range(likelihood):
    again = likelihood.with_parameters(likelihood.parameters)
    assert np.allclose(again.parameters, likelihood.parameters, rtol=1e-15)
    for extreme in (-1e3, 1e2):
        far = likelihood.with_parameters(np.full(likelihood.parameters.size, extreme))
        assert np.isfinite(far.parameters).all()


def test_the_first_counts_tell_level_and_spread():
    rng = np.random.default_rng(0)
    y = rng.poisson(np.exp(rng.normal(3.0, 0.8, 5000))).astype(float)
    _, level, variance = Poisson().begun(y, np.ones(y.size))
    assert abs(level - (3.0 + 0.5 * 0.8**2)) < 0.1  # of the mean rate
    assert abs(variance - 0.64) < 0.1
    assert Poisson().begun(np.zeros(3), np.ones(3))[1] < 0  # no event yet
    assert np.isfinite(Bernoulli().begun(np.ones(4), np.ones(4))[1])
