"""Functions drawn from the posterior: one function each, with the moments of the predictions."""

import pickle

import numpy as np
import pytest

from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import InputError, KernelError
from streamgp.kernels.random_features import random_features
from streamgp.parameters import METHODS, used_by

RNG = np.random.default_rng(8)
X = RNG.uniform(-2, 2, (90, 2))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * RNG.normal(size=90)
W = RNG.uniform(0.3, 3.0, 90)
NEW = np.concatenate(
    [RNG.uniform(-2, 2, (6, 2)), [[4.0, 4.0], [-9.0, 3.0]]]
)  # the last two are far from all rows
KERNELS = [
    1.3 * kernels.SquaredExponential([0.9, 1.4]),
    kernels.Matern(1.2, nu=0.5) + kernels.Trend([0.0, 0.1], [1.0, 1.2], 0.5, 0.8),
    kernels.Matern([0.8, 2.0], nu=2.5) * kernels.RationalQuadratic(1.5, alpha=0.8),
    kernels.Matern(1.0, nu=1.5) + 0.4 * kernels.Linear(2.0) + kernels.Constant(0.3),
    kernels.Periodic(1.1, period=[3.0, 5.0]) * (kernels.Constant(0.5) + kernels.Linear(2.0)),
    kernels.WeightedSum((kernels.SquaredExponential(0.7), kernels.Matern(2.0)), (0.7, 0.4)),
]
DRAWS = 200


def standard_scores(draws, mean, covariance):
    """Errors of the mean and of the covariance of draws, in their standard errors."""
    std = np.sqrt(np.diag(covariance))
    n = len(draws)
    of_mean = (draws.mean(axis=0) - mean) / std * n**0.5
    spread = np.sqrt((np.outer(std, std) ** 2 + covariance**2) / n)
    return of_mean, (np.cov(draws.T) - covariance) / spread


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: repr(k)[:40])
def test_random_features_have_the_kernel_as_their_expectation(kernel):
    products = []
    for seed in range(30):
        features = random_features(kernel, np.random.default_rng(seed), 400, X)(NEW)
        products.append(features @ features.T)
    mean, error = np.mean(products, axis=0), np.std(products, axis=0) / 30**0.5
    # 5 standard errors, and 1e-9 for features that are exact.
    assert (np.abs(mean - kernel.block(NEW)) < 5 * error + 1e-9).all()


@pytest.mark.parametrize("kernel", KERNELS[1:3], ids=lambda k: repr(k)[:40])
@pytest.mark.parametrize("method", METHODS)
def test_moments_of_draws_are_those_of_predictions(method, kernel):
    more = used_by(method, rank=40, members=("gp",))
    gp = StreamingGPRegressor(kernel, noise=0.05, random_state=0, tune="none", **more)
    gp.fit(X[:60], Y[:60], W[:60]).partial_fit(X[60:], Y[60:], W[60:])
    draws = np.array([gp.sample_function(seed)(NEW) for seed in range(DRAWS)])
    mean, covariance = gp.predict(NEW, return_cov=True, latent=True, calibrated=False)
    of_mean, of_covariance = standard_scores(draws, mean, covariance)
    # Of 8 means and 64 covariances none beyond 5 standard errors; products have longer tails than their own spread.
    assert np.abs(of_mean).max() < 5
    assert np.abs(of_covariance).max() < 6.5


def test_a_draw_is_one_function_that_later_rows_do_not_change():
    gp = StreamingGPRegressor(random_state=0).fit(X, Y)
    draw = gp.sample_function(3)
    first = draw(NEW)
    np.testing.assert_allclose(draw(NEW[2:5]), first[2:5], rtol=1e-10)
    np.testing.assert_array_equal(gp.sample_function(3)(NEW), first)
    assert np.abs(gp.sample_function(4)(NEW) - first).max() > 0.01
    gp.partial_fit(X + 0.1, Y)
    np.testing.assert_array_equal(draw(NEW), first)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(draw))(NEW), first)


def test_draws_of_several_outputs_are_independent_with_gaps_and_pending_rows():
    y = 5.0 + np.stack([Y, 100 * Y, RNG.normal(size=90)], axis=1)
    y[70:, 2] = np.nan
    gp = StreamingGPRegressor(
        2.0 * kernels.Matern(1.0), noise=0.1, tune="none", members=("gp",), random_state=0
    )
    gp.fit(X[:60], y[:60]).partial_fit(X[60:80], y[60:80]).partial_fit(X[80:], y[80:])
    draws = np.array([gp.sample_function(seed)(NEW) for seed in range(DRAWS)])
    mean, std = gp.predict(NEW, return_std=True, latent=True)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * std / DRAWS**0.5).all()
    np.testing.assert_allclose(draws.std(axis=0), std, rtol=0.2)
    apart = (draws - draws.mean(axis=0)) / draws.std(axis=0)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert np.abs((apart[:, :, a] * apart[:, :, b]).mean(axis=0)).max() < 5 / DRAWS**0.5


def test_functions_of_array_libraries_and_single_precision(library):
    x, y, new = (library.asarray(v.astype(np.float32)) for v in (X, Y, NEW))
    gp = StreamingGPRegressor(kernels.Matern(1.0), noise=0.1, tune="none", random_state=0).fit(x, y)
    values = library.to_numpy(gp.sample_function(0)(new))
    assert values.shape == (8,)
    assert np.isfinite(values).all()
    assert values.dtype == np.float32


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"kernel": kernels.DistancePolynomial((0.0, 0.7)), "method": "srmf", "tune": "none"}, InputError),
        ({"kernel": kernels.Matern(1.0), "method": "brmf", "variant": "literal"}, InputError),
        ({"kernel": kernels.WeightedSum((kernels.Matern(1.0),)), "method": "srmf"}, InputError),
        ({"kernel": kernels.BrownianPolynomial((0.0, 0.7)), "tune": "none"}, KernelError),
    ],
)
def test_models_without_functions_say_so(more, kind):
    gp = StreamingGPRegressor(noise=0.5, random_state=0, **more).fit(X, Y)
    with pytest.raises(kind, match="drawn"):
        gp.sample_function()
