"""Answers: mean, standard deviation, covariance, interval and samples of one posterior."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import wave
from streamgp import kernels
from streamgp.errors import NegativeVarianceWarning, ParameterError
from streams import X0, fitted, learned


def test_predict_asks_for_a_covariance_alone_and_a_sensible_interval():
    gp = fitted()
    with pytest.raises(ParameterError, match="return_cov alone"):
        gp.predict(X0, return_std=True, return_cov=True)
    with pytest.raises(ParameterError, match="return_interval=90 must lie between 0 and 1"):
        gp.predict(X0, return_interval=90)


def test_std_interval_and_samples_tell_the_same_story():
    gp = fitted(n=60)
    mean, std = gp.predict(X0, return_std=True)
    _, lower, upper = gp.predict(X0, return_interval=0.9, calibrated=False)
    assert_allclose(upper - mean, 1.6448536 * std, rtol=1e-6)
    assert_allclose(mean - lower, 1.6448536 * std, rtol=1e-6)
    _, cov = gp.predict(X0, return_cov=True)
    assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-9)
    latent = gp.predict(X0, return_std=True, latent=True)[1]
    assert_allclose(std**2 - latent**2, gp.noise_ * gp.y_scale_[0] ** 2, rtol=1e-9)
    samples = gp.sample_y(X0, 20000, random_state=1)
    # The standard error of a mean of 20,000 is std/141; 5 of these leave a chance of 1e-5 over 20 rows.
    assert_allclose(samples.mean(axis=1), mean, atol=5 * std.max() / 141)
    assert_allclose(np.cov(samples), cov, atol=0.05 * cov.max())


def test_negative_variances_beyond_rounding_are_counted_for_valid_kernels_too(monkeypatch):
    gp = fitted("nrmf", kernel=kernels.SquaredExponential(1.0), noise=0.1)
    model = type(gp.learner_.state)
    right = model.predict

    def wrong(self, X, **asked):
        out = right(self, X, **asked)
        return replace(out, variance=out.variance - 2.0)

    monkeypatch.setattr(model, "predict", wrong)
    with pytest.warns(NegativeVarianceWarning, match=r"20 of 20 .* rounding of float64"):
        _, std = gp.predict(X0, return_std=True, latent=True)
    assert (std == 0).all()


def test_a_negative_variance_is_counted_aloud_and_set_to_zero():
    X, y = wave(60)
    gp = learned(
        X, y, 20, kernel=kernels.DistancePolynomial((0.0, 1.0, 1.0)), noise=0.1, method="srmf", rank=40
    )
    with pytest.warns(
        NegativeVarianceWarning, match=r"of 60 predicted variances were negative, the lowest -"
    ):
        _, std = gp.predict(X, return_std=True, latent=True)
    assert (std == 0).any()
    assert (std >= 0).all()
    with pytest.warns(NegativeVarianceWarning):
        _, cov = gp.predict(X, return_cov=True, latent=True)
    assert np.diag(cov).min() >= 0


@pytest.mark.parametrize("method", ["srmf", "brmf"])
def test_negative_variances_of_the_printed_algorithms_are_blamed_on_the_cross_covariance(method):
    X, y = wave(120)
    given = {"method": method, "variant": "literal", "rank": 15, "noise": 1e-3}
    blame = r"120 of 120 .* divides by the noise what the factor leaves out of the cross-covariance"
    gp = learned(X, y, 40, kernel=kernels.SquaredExponential(0.5), **given)
    with pytest.warns(NegativeVarianceWarning, match=blame):
        gp.predict(X, return_std=True)
    gp = learned(X, y, 40, kernel=kernels.DistancePolynomial((0.0, 1.0)), **given)
    with pytest.warns(NegativeVarianceWarning, match=r"not positive semi-definite.* of the cross-covariance"):
        gp.predict(X, return_std=True)
