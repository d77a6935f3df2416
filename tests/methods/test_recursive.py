"""`rgp` is the recursive Gaussian process of Huber (2014)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import wave
from streamgp import StreamingGPRegressor
from streamgp.errors import InputError
from streamgp.gp.posterior import log_density
from streams import KERNEL, learned, plane


def hubers_recursion(kernel, Z, batches, noise):
    """The Kalman filter of Huber (2014), eqs. (8) to (13), on the function's values at Z."""
    Kzz = kernel.block(Z)
    inverse = np.linalg.inv(Kzz)
    mean, cov = np.zeros(len(Z)), Kzz.copy()

    def observe(X):
        gain = kernel.block(X, Z) @ inverse
        own = kernel.block(X) - gain @ kernel.block(Z, X)
        return gain, own + gain @ cov @ gain.T

    for X, y in batches:
        J, predicted = observe(X)
        G = cov @ J.T @ np.linalg.inv(predicted + noise * np.eye(len(X)))
        mean, cov = mean + G @ (y - J @ mean), cov - G @ J @ cov

    def predict(X):
        J, predicted = observe(X)
        return J @ mean, predicted

    return predict


@pytest.mark.parametrize("noise", [0.02, 0.7])
@pytest.mark.parametrize(("size", "batch"), [(10, 20), (25, 7), (40, 1)])
def test_rgp_is_hubers_recursion(noise, size, batch):
    X, y = wave(140)
    Z = np.random.default_rng(8).uniform(-2, 2, (size, 3))
    gp = learned(X, y, batch, noise=noise, method="rgp", basis=Z)
    assert gp.rank_ == size
    cuts = range(0, 140, batch)
    predict = hubers_recursion(KERNEL, Z, [(X[i : i + batch], y[i : i + batch]) for i in cuts], noise)
    new = wave(30, seed=1)[0]
    expected_mean, expected_cov = predict(new)
    mean, cov = gp.predict(new, return_cov=True, latent=True)
    assert_allclose(mean, expected_mean, atol=1e-8)
    assert_allclose(cov, expected_cov, atol=1e-8)


@pytest.mark.parametrize("noise", [0.02, 0.7])
@pytest.mark.parametrize(("size", "batch"), [(10, 20), (25, 7), (40, 140)])
def test_the_evidence_of_rgp_is_the_density_of_its_covariance(noise, size, batch):
    """PITC: exact within a batch, through the inducing points between batches."""
    X, y = wave(140, q=2)
    Z = np.random.default_rng(8).uniform(-2, 2, (size, 3))
    gp = learned(X, y, batch, noise=noise, method="rgp", basis=Z)
    cross = KERNEL.block(X, Z)
    covariance = cross @ np.linalg.solve(KERNEL.block(Z), cross.T)
    for i in range(0, 140, batch):
        covariance[i : i + batch, i : i + batch] = KERNEL.block(X[i : i + batch])
    covariance += noise * np.eye(140)
    quadratic = float((y * np.linalg.solve(covariance, y)).sum())
    expected = log_density(quadratic, np.linalg.slogdet(covariance)[1], 140, 2)
    assert gp.log_evidence() == pytest.approx(expected, rel=1e-8)


def test_rgp_forgets_at_the_given_rate():
    X, y = wave(200)
    turned = np.concatenate([y[:100], -y[100:]])
    quick, never = (learned(X, turned, 20, method="rgp", rank=60, forgetting=f) for f in (0.3, 1.0))
    # The first batches weigh 0.3⁵ of the last ones, or as much as these.
    assert np.corrcoef(quick.predict(X[100:]), turned[100:])[0, 1] > 0.8
    assert np.corrcoef(never.predict(X[100:]), turned[100:])[0, 1] < 0


def test_rgp_refuses_to_unlearn_under_another_kernel():
    X, y = plane(200)
    gp = StreamingGPRegressor(method="rgp", rank=60, random_state=0).partial_fit(X[:90], y[:90])
    gp.partial_fit(X[90:], y[90:])
    assert gp.tuning_.taken
    with pytest.raises(InputError, match="after a tuning"):
        gp.unlearn(X[100:], y[100:])
