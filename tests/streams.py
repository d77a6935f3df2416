"""Streams, kernels and fitted regressors that several test files share."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.gp.normal_equations import NormalEquations
from streamgp.parameters import METHODS, used_by

every_method = pytest.mark.parametrize("method", METHODS)
KERNEL = 1.5 * kernels.SquaredExponential([0.5, 0.7, 0.6])
PARTS = (kernels.SquaredExponential(0.5), kernels.Matern(2.0), kernels.Linear(1.3))
AFFINE = [
    kernels.DistancePolynomial((0.0, 0.7, 0.4)),
    kernels.DistancePolynomial((0.0, 0.5, 0.0, 0.02)),
    kernels.DistancePolynomial((0.0, 0.5, 0.3, 0.1)),
    kernels.BrownianPolynomial((0.0, 0.7, 0.2)),
    kernels.WeightedSum(PARTS, (0.3, 1.2, 0.0)),
]
APPROXIMATIONS = [
    {"method": "srmf"},
    {"method": "srmf", "variant": "literal"},
    {"method": "brmf"},
    {"method": "brmf", "variant": "literal"},
    {"method": "rgp"},
    {"method": "pivoted"},
    {"method": "pivoted", "memory": "rows"},
]
LOW_RANK_IDS = ["srmf", "srmf literal", "brmf", "brmf literal", "rgp", "pivoted", "pivoted rows"]
X0, Y0 = wave(20, seed=5)


def drifting(n, seed=0):
    """Inputs that wander off, so that pivots must change."""
    rng = np.random.default_rng(seed)
    X = np.cumsum(0.05 * rng.standard_normal((n, 3)), axis=0)
    return X, np.sin(2 * X).sum(axis=1) + 0.1 * rng.standard_normal(n)


def plane(n, seed=0, noise=0.1):
    """A wave along the first input, a slope along the second, nothing along the third."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + noise * rng.standard_normal(n)


def fitted(method="srmf", n=120, **given):
    """A regressor of rank 40 that has learned n rows as one batch."""
    X, y = wave(n)
    return StreamingGPRegressor(**used_by(method, rank=40), random_state=0, **given).partial_fit(X, y)


def learned(X, y, batch, kernel=KERNEL, noise=0.01, method="pivoted", **given):
    """A regressor with fixed hyperparameters after a stream of batches; of `given`, what its method uses."""
    used = used_by(method, **{"members": ("gp",), **given})
    gp = StreamingGPRegressor(kernel, tune="none", noise=noise, random_state=0, **used)
    for i in range(0, len(X), batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    return gp


def stream(X, y, batch, rank=60, noise=0.02, **given):
    """The same with fewer pivots than the stream could use."""
    return learned(X, y, batch, noise=noise, rank=rank, **given)


def assert_predict_alike(a, b, X, atol):
    for got, expected in zip(a.predict(X, return_cov=True), b.predict(X, return_cov=True), strict=True):
        assert_allclose(got, expected, atol=atol)
    assert_allclose(a.predict(X, return_std=True)[1], b.predict(X, return_std=True)[1], atol=atol)


def random_rows(n, r, q, seed):
    """Features (n, r) and targets (n, q) without any structure."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, r)), rng.standard_normal((n, q))


def statistics_of(F, y):
    """Statistics of rows whose prior variance is 2."""
    return NormalEquations.empty(F.shape[1], y.shape[1], F).add(F, y, 2.0 * len(F))
