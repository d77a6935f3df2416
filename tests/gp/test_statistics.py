import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from streamgp.gp.statistics import Conditioned, NormalEquations, diagonal_statistics
from streamgp.lowrank import Complement

LAW = 1e-9  # the law's own tolerance, relative to the size of the numbers


def rows(n, r, q, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, r)), rng.standard_normal((n, q))


def learn(F, y):
    return NormalEquations.empty(F.shape[1], y.shape[1], F).learn(F, y, 2.0 * len(F))


def assert_same(a, b, scale=1.0):
    assert_allclose(a.gram, b.gram, atol=LAW * scale)
    assert_allclose(a.moment, b.moment, atol=LAW * scale)
    assert_allclose(a.energy, b.energy, atol=LAW * scale)
    assert a.count == pytest.approx(b.count)
    assert a.prior_trace == pytest.approx(b.prior_trace)
    assert a.log_whitening == pytest.approx(b.log_whitening)


sizes = given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 4), st.integers(0, 10**6))


@settings(max_examples=30, deadline=None)
@sizes
def test_merging_equals_learning_both(n, r, q, seed):
    (F, y), (G, z) = rows(n, r, q, seed), rows(n + 3, r, q, seed + 1)
    both = learn(np.concatenate([F, G]), np.concatenate([y, z]))
    assert_same(learn(F, y).merge(learn(G, z)), both, n)
    assert_same(learn(F, y).learn(G, z, 2.0 * len(G)), both, n)


@settings(max_examples=30, deadline=None)
@sizes
def test_unlearning_is_the_inverse_of_learning(n, r, q, seed):
    (F, y), (G, z) = rows(n, r, q, seed), rows(n + 3, r, q, seed + 1)
    there_and_back = learn(F, y).learn(G, z, 7.0, 0.3).unlearn(G, z, 7.0, 0.3)
    assert_same(there_and_back, learn(F, y), n)


@settings(max_examples=30, deadline=None)
@sizes
def test_forgetting_equals_weighing_the_rows(n, r, q, seed):
    F, y = rows(n, r, q, seed)
    root = np.sqrt(0.7)
    forgotten = learn(F, y).forget(0.7)
    assert_allclose(forgotten.gram, (root * F).T @ (root * F), atol=LAW * n)
    assert_allclose(forgotten.moment, (root * F).T @ (root * y), atol=LAW * n)
    assert forgotten.count == pytest.approx(0.7 * n)


@settings(max_examples=30, deadline=None)
@sizes
def test_transforming_equals_learning_the_transformed_features(n, r, q, seed):
    F, y = rows(n, r, q, seed)
    T = np.random.default_rng(seed + 2).standard_normal((max(1, r - 2), r))
    assert_same(learn(F, y).transform(T), learn(F @ T.T, y), 100 * n)


@pytest.mark.parametrize("m", [1, 3])
def test_dropping_directions_equals_learning_what_is_left(m):
    F, y = rows(20, 7, 2, 0)
    complement = Complement.of(np.random.default_rng(1).standard_normal((7, m)))
    assert_same(learn(F, y).drop(complement), learn(complement.rows(F), y))


def test_extending_equals_features_that_were_zero_before():
    F, y = rows(20, 5, 2, 0)
    G = np.random.default_rng(1).standard_normal((6, 3))
    new = np.concatenate([np.zeros((14, 3)), G])
    expected = learn(np.concatenate([F, new], axis=1), y)
    assert_same(learn(F, y).extend(F[14:], G, y[14:], np.ones(6)), expected)
    assert_same(learn(F, y).forget(0.5).extend(F[14:], G, y[14:], np.full(6, 0.5)), expected.forget(0.5))


@pytest.mark.parametrize("p", [1, 7, 40])
def test_conditioning_on_a_few_more_rows_equals_learning_them(p):
    (F, y), (G, z), (new, _) = rows(30, 8, 2, 0), rows(p, 8, 2, 1), rows(9, 8, 2, 2)
    conditioned = Conditioned.on(learn(F, y).solve(0.3), G, z)
    mean, leverage = conditioned.predict(new)
    expected = learn(F, y).learn(G, z, 0.0).solve(0.3)
    assert_allclose(mean, expected.mean(new), atol=1e-11)
    assert_allclose(leverage, expected.leverage(new), atol=1e-11)
    assert_allclose(conditioned.weights, expected.weights, atol=1e-11)


def dense_log_density(K, y):
    n = len(K)
    return sum(
        -0.5 * (c @ np.linalg.solve(K, c) + np.linalg.slogdet(K)[1] + n * np.log(2 * np.pi)) for c in y.T
    )


@pytest.mark.parametrize("noise", [0.01, 0.5, 30.0])
@pytest.mark.parametrize(("n", "r"), [(25, 6), (6, 25), (10, 10)])
def test_evidence_is_the_dense_gaussian_log_density(n, r, noise):
    F, y = rows(n, r, 3, 4)
    expected = dense_log_density(F @ F.T + noise * np.eye(n), y)
    assert learn(F, y).solve(noise).log_evidence == pytest.approx(expected, rel=1e-10)


def indefinite(n=25, r=6, noise=0.3):
    """Features whose ΦJΦᵀ + σ²I is positive definite although J has a negative sign."""
    F, y = rows(n, r, 2, 4)
    F[:, 1] *= 0.02
    J = np.array([1.0, -1.0, 1.0, 1.0, 1.0, 1.0])
    return F, y, J, noise


def test_evidence_keeps_the_signature():
    F, y, J, noise = indefinite()
    statistics = NormalEquations(F.T @ F, F.T @ y, y.T @ y, len(F), 0.0, J)
    expected = dense_log_density((F * J) @ F.T + noise * np.eye(len(F)), y)
    assert statistics.solve(noise).log_evidence == pytest.approx(expected, rel=1e-10)


def test_evidence_of_a_matrix_with_a_negative_determinant_is_minus_infinity():
    F, y, J, _ = indefinite()
    F[:, 1] *= 1000
    assert NormalEquations(F.T @ F, F.T @ y, y.T @ y, len(F), 0.0, J).solve(0.3).log_evidence == -np.inf


@pytest.mark.parametrize("signed", [False, True])
def test_prediction_is_the_gaussian_conditional(signed):
    F, y, J, noise = indefinite()
    J = J if signed else np.ones(6)
    G = rows(7, 6, 1, 9)[0]
    K, cross, own = (F * J) @ F.T + noise * np.eye(25), (G * J) @ F.T, (G * J) @ G.T + 3.0 * np.eye(7)
    posterior = NormalEquations(F.T @ F, F.T @ y, y.T @ y, 25, 0.0, J if signed else None).solve(noise)
    assert_allclose(posterior.mean(G), cross @ np.linalg.solve(K, y), atol=1e-10)
    expected = own - cross @ np.linalg.solve(K, cross.T)
    assert_allclose(posterior.covariance(G, own), expected, atol=1e-9)
    assert_allclose(posterior.variance(G, np.diag(own)), np.diag(expected), atol=1e-9)


def test_leave_one_out_equals_leaving_one_out():
    F, y = rows(15, 4, 2, 1)
    fast = learn(F, y).solve(0.4).leave_one_out(F, y)
    for i in range(15):
        others = np.arange(15) != i
        assert_allclose(
            fast[i], y[i] - learn(F[others], y[others]).solve(0.4).mean(F[i : i + 1])[0], atol=1e-11
        )


def test_trace_error_is_the_trace_of_what_the_features_miss():
    F, y = rows(15, 4, 2, 1)
    assert learn(F, y).trace_error == pytest.approx(30.0 - np.trace(F @ F.T), rel=1e-12)
    S = np.array([3.0, -2.0, 0.5])
    statistics = diagonal_statistics(S, np.zeros((3, 1)), np.zeros((1, 1)), 5, 4.0, indefinite=True)
    assert statistics.trace_error == pytest.approx(4.0 - S.sum())


def test_noise_below_the_rounding_of_the_gram_still_gives_the_least_squares_answer():
    F, y = rows(40, 5, 1, 3)
    F = np.concatenate([F, F[:, :2]], axis=1) * 1e4  # rank-deficient, and 1e-16 of A is far above the noise
    posterior = learn(F, y).solve(1e-12)
    expected = F @ np.linalg.lstsq(F, y, rcond=None)[0]
    assert_allclose(posterior.mean(F), expected, atol=1e-7)
    assert np.isfinite(posterior.log_evidence)
    # In the direction that no row has, the prior is left as it was.
    unseen = np.array([[1.0, 0, 0, 0, 0, -1.0, 0]])
    assert_allclose(posterior.variance(unseen, np.array([2.0])), 2.0, rtol=1e-6)


def test_single_precision_features_are_summed_in_double():
    F, y = rows(1000, 5, 1, 3)
    single = F.astype(np.float32)
    assert_allclose(
        learn(single, y).gram, single.astype(np.float64).T @ single.astype(np.float64), rtol=1e-14
    )
