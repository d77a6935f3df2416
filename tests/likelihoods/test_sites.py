"""Sites: one row is learned exactly by its moments, many match the moments of each row at once."""

import numpy as np
import pytest

from streamgp.likelihoods import Bernoulli, NegativeBinomial, Poisson, StudentT, find_sites

KINDS = [
    (Poisson(), [0.0, 3.0, 1.0, 12.0]),
    (NegativeBinomial(1.5), [0.0, 3.0, 1.0, 12.0]),
    (Bernoulli(), [0.0, 1.0, 1.0, 0.0]),
    (StudentT(4.0, 0.3), [0.1, -0.4, 5.0, 0.8]),
]
MEAN = np.array([0.2, 0.4, 0.1, 0.9])
A = np.random.default_rng(3).standard_normal((4, 4))
COVARIANCE = 0.4 * A @ A.T / 4 + 0.3 * np.eye(4)


def given(mean, covariance, w, z):
    """Mean and covariance of f given observations z of noise 1/w, by the formula of a Gaussian process."""
    gain = covariance @ np.linalg.inv(covariance + np.diag(1 / w))
    return mean + gain @ (z - mean), covariance - gain @ covariance


@pytest.mark.parametrize(("likelihood", "labels"), KINDS[:3], ids=lambda v: type(v).__name__)
def test_a_single_row_gets_the_moments_of_its_posterior(likelihood, labels):
    for label in labels:
        y, mean, variance = np.array([label]), np.array([0.7]), np.array([0.9])
        sites = find_sites(likelihood, y, mean, variance[None, :])
        exact = likelihood.tilted(y, mean, variance)
        assert np.allclose(sites.mean, exact.mean, rtol=1e-10)
        assert np.allclose(sites.variance, exact.variance, rtol=1e-10)


@pytest.mark.parametrize(("likelihood", "labels"), KINDS, ids=lambda v: type(v).__name__)
def test_pseudo_observations_give_what_was_found_for_the_rows(likelihood, labels):
    sites = find_sites(likelihood, np.array(labels), MEAN, COVARIANCE)
    mean, covariance = given(MEAN, COVARIANCE, sites.w, sites.z)
    assert np.allclose(sites.mean, mean, atol=1e-9)
    assert np.allclose(sites.variance, covariance.diagonal(), atol=1e-9)
    assert (sites.w > 0).all()


@pytest.mark.parametrize(("likelihood", "labels"), KINDS[:3], ids=lambda v: type(v).__name__)
def test_every_row_has_the_moments_of_its_cavity_and_label(likelihood, labels):
    y = np.array(labels)
    sites = find_sites(likelihood, y, MEAN, COVARIANCE)
    exact = sites.left_out(likelihood, y)
    # Sweeps end where nothing moves by 1e-3 of a deviation.
    assert (np.abs(sites.mean - exact.mean) < 5e-3 * np.sqrt(exact.variance)).all()
    assert np.allclose(sites.variance, exact.variance, rtol=1e-2)


@pytest.mark.parametrize(("likelihood", "labels"), KINDS, ids=lambda v: type(v).__name__)
def test_a_row_of_weight_three_is_three_equal_rows(likelihood, labels):
    y = np.array(labels)
    weighted = find_sites(likelihood, y, MEAN, COVARIANCE, np.array([3.0, 1.0, 1.0, 2.0]))
    rows = np.array([0, 0, 0, 1, 2, 3, 3])
    copies = find_sites(likelihood, y[rows], MEAN[rows], COVARIANCE[np.ix_(rows, rows)])
    # Both end sweeping at 1e-3 of a deviation.
    deviation = np.sqrt(weighted.variance[rows])
    assert (np.abs(copies.mean - weighted.mean[rows]) < 1e-2 * deviation).all()
    assert np.allclose(np.bincount(rows, copies.w), weighted.w, rtol=2e-2)


def test_many_counts_of_a_row_are_an_observation_of_their_logarithm():
    sites = find_sites(Poisson(), np.array([1e4]), np.array([9.0]), np.array([[1.0]]))
    assert np.allclose(sites.z, np.log(1e4), atol=1e-3)
    assert np.allclose(sites.w, 1e4, rtol=1e-2)


def test_a_far_row_has_little_weight_and_no_row_is_believed_more_than_a_normal_one():
    likelihood = StudentT(3.0, 0.3)
    sites = find_sites(likelihood, np.array([0.0, 30.0]), np.zeros(2), 0.1 * np.eye(2))
    assert sites.w[1] < 1e-2 * sites.w[0]
    assert sites.w[0] <= (3.0 + 1.0) / (3.0 * 0.3**2)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_rows_without_any_uncertainty_keep_their_mean(label):
    sites = find_sites(Bernoulli(), np.full(3, label), np.full(3, 1.5), 1e-14 * np.eye(3))
    assert np.allclose(sites.mean, 1.5)
    assert np.isfinite(sites.z).all()
    assert np.isfinite(sites.w).all()
