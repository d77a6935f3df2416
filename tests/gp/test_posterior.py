"""Posterior: the dense Gaussian conditional, its log density, and leaving rows out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from streamgp.gp.normal_equations import NormalEquations
from streamgp.gp.posterior import Conditioned, Posterior
from streams import random_rows, statistics_of


@pytest.mark.parametrize("p", [1, 7, 40])
def test_conditioning_on_a_few_more_rows_equals_learning_them(p):
    (F, y), (G, z), (new, _) = random_rows(30, 8, 2, 0), random_rows(p, 8, 2, 1), random_rows(9, 8, 2, 2)
    conditioned = Conditioned.on(Posterior(statistics_of(F, y), 0.3), G, z)
    mean, spread = conditioned.predict(new)
    expected = Posterior(statistics_of(F, y).add(G, z, 0.0), 0.3)
    assert_allclose(mean, expected.mean(new), atol=1e-11)
    unexplained = 2.0 - (new**2).sum(axis=1, keepdims=True)
    assert_allclose(unexplained + spread, expected.variance(new, np.full(9, 2.0)), atol=1e-11)
    assert_allclose(conditioned.weights, expected.weights, atol=1e-11)


def dense_log_density(K, y):
    n = len(K)
    return sum(
        -0.5 * (c @ np.linalg.solve(K, c) + np.linalg.slogdet(K)[1] + n * np.log(2 * np.pi)) for c in y.T
    )


@pytest.mark.parametrize("noise", [0.01, 0.5, 30.0])
@pytest.mark.parametrize(("n", "r"), [(25, 6), (6, 25), (10, 10)])
def test_evidence_is_the_dense_gaussian_log_density(n, r, noise):
    F, y = random_rows(n, r, 3, 4)
    expected = dense_log_density(F @ F.T + noise * np.eye(n), y)
    assert Posterior(statistics_of(F, y), noise).log_evidence == pytest.approx(expected, rel=1e-10)


def indefinite(n=25, r=6, noise=0.3):
    """Features whose ΦJΦᵀ + σ²I is positive definite although J has a negative sign."""
    F, y = random_rows(n, r, 2, 4)
    F[:, 1] *= 0.02
    J = np.array([1.0, -1.0, 1.0, 1.0, 1.0, 1.0])
    return F, y, J, noise


def test_evidence_keeps_the_signature():
    F, y, J, noise = indefinite()
    statistics = NormalEquations(F.T @ F, F.T @ y, y.T @ y, len(F), 0.0, J)
    expected = dense_log_density((F * J) @ F.T + noise * np.eye(len(F)), y)
    assert Posterior(statistics, noise).log_evidence == pytest.approx(expected, rel=1e-10)


def test_evidence_of_a_matrix_with_a_negative_determinant_is_minus_infinity():
    F, y, J, _ = indefinite()
    F[:, 1] *= 1000
    assert Posterior(NormalEquations(F.T @ F, F.T @ y, y.T @ y, len(F), 0.0, J), 0.3).log_evidence == -np.inf


@pytest.mark.parametrize("signed", [False, True])
def test_prediction_is_the_gaussian_conditional(signed):
    F, y, J, noise = indefinite()
    J = J if signed else np.ones(6)
    G = random_rows(7, 6, 1, 9)[0]
    K, cross, own = (F * J) @ F.T + noise * np.eye(25), (G * J) @ F.T, (G * J) @ G.T + 3.0 * np.eye(7)
    posterior = Posterior(NormalEquations(F.T @ F, F.T @ y, y.T @ y, 25, 0.0, J if signed else None), noise)
    assert_allclose(posterior.mean(G), cross @ np.linalg.solve(K, y), atol=1e-10)
    expected = own - cross @ np.linalg.solve(K, cross.T)
    assert_allclose(posterior.covariance(G, own), [expected, expected], atol=1e-9)
    assert_allclose(posterior.variance(G, np.diag(own)), np.stack([np.diag(expected)] * 2, axis=1), atol=1e-9)


def test_leave_one_out_equals_leaving_one_out():
    F, y = random_rows(15, 4, 2, 1)
    fast = Posterior(statistics_of(F, y), 0.4).left_out(F, y, np.full(15, 2.0)).error
    for i in range(15):
        others = np.arange(15) != i
        assert_allclose(
            fast[i],
            y[i] - Posterior(statistics_of(F[others], y[others]), 0.4).mean(F[i : i + 1])[0],
            atol=1e-11,
        )


def test_noise_below_the_rounding_of_the_gram_still_gives_the_least_squares_answer():
    F, y = random_rows(40, 5, 1, 3)
    F = np.concatenate([F, F[:, :2]], axis=1) * 1e4  # rank-deficient, and 1e-16 of A is far above the noise
    posterior = Posterior(statistics_of(F, y), 1e-12)
    expected = F @ np.linalg.lstsq(F, y, rcond=None)[0]
    assert_allclose(posterior.mean(F), expected, atol=1e-7)
    assert np.isfinite(posterior.log_evidence)
    # In the direction that no row has, the prior is left as it was.
    unseen = np.array([[1.0, 0, 0, 0, 0, -1.0, 0]])
    assert_allclose(posterior.variance(unseen, np.array([2.0])), 2.0, rtol=1e-6)
