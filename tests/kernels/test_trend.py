"""Trend: a kernel of d + 1 features that are known in closed form, exact through every change of inducing points."""

import numpy as np
import pytest

from streamgp import StreamingGPRegressor
from streamgp.errors import KernelError
from streamgp.kernels import Matern, SquaredExponential, Trend
from streamgp.methods import pivot_changes

RNG = np.random.default_rng(3)
X = RNG.normal(size=(240, 3)) * [1.0, 10.0, 0.1] + [5.0, 0.0, 1.0]
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=240)
NEW = RNG.normal(size=(40, 3)) * [1.0, 10.0, 0.1] + [5.0, 0.0, 1.0]
TREND = Trend(X.mean(axis=0), X.std(axis=0), 4.0, 3.0)


def learned(rank=60, kernel=None, method="pivoted", **given):
    kernel = 2.0 * SquaredExponential([0.3, 3.0, 0.03]) + TREND if kernel is None else kernel
    given = {"noise": 0.01, "tune": "none", "random_state": 0} | given
    gp = StreamingGPRegressor(kernel, method=method, **given, **({} if method == "nrmf" else {"rank": rank}))
    for i in range(0, 240, 20):
        gp.partial_fit(X[i : i + 20], Y[i : i + 20])
    return gp


def test_the_kernel_is_its_features():
    B = TREND.basis(X)
    expected = (B * TREND.coefficients) @ B.T
    np.testing.assert_allclose(TREND.block(X), expected, rtol=1e-12)
    np.testing.assert_allclose(TREND.diag(X), np.diag(expected), rtol=1e-12)
    np.testing.assert_allclose(TREND.block(X, NEW), (B * TREND.coefficients) @ TREND.basis(NEW).T, rtol=1e-12)


def test_the_gradient_is_that_of_finite_differences():
    W, theta, step = RNG.normal(size=(240, 240)), TREND.theta, 1e-5
    for i, given in enumerate(TREND.gradient(W, X)):
        moved = [TREND.with_theta(theta + s * step * np.eye(2)[i]).block(X) for s in (1, -1)]
        # Central differences of a function of third derivatives like its own size: step² and rounding/step.
        assert given == pytest.approx(float((W * (moved[0] - moved[1])).sum()) / (2 * step), rel=1e-7)


def test_a_feature_counts_as_at_most_a_hundred_units_away():
    far = np.vstack([X[:1], X[:1] + np.array([1e9, 0.0, 0.0])])
    assert np.abs(TREND.basis(far)).max() == 100.0


def test_other_units_are_the_same_function():
    other = TREND.moved(np.array([4.0, 3.0, 0.0]), np.array([2.0, 7.0, 0.5]))
    coefficients = RNG.normal(size=4)
    again = TREND.coefficients_in(other) @ coefficients
    np.testing.assert_allclose(other.basis(X) @ again, TREND.basis(X) @ coefficients, rtol=1e-12)


def test_numbers_that_do_not_fit_the_data_are_refused():
    with pytest.raises(KernelError, match="features"):
        TREND.block(X[:, :2])
    with pytest.raises(KernelError, match="as many finite numbers"):
        Trend([0.0, np.nan], [1.0, 1.0])


@pytest.mark.parametrize("method", ["pivoted", "rgp", "srmf", "brmf"])
def test_with_a_trend_every_method_is_the_exact_gp_at_full_rank(method):
    exact, found = (learned(240, method=m).predict(NEW, return_std=True) for m in ("nrmf", method))
    np.testing.assert_allclose(found[0], exact[0], atol=1e-8)
    np.testing.assert_allclose(found[1], exact[1], atol=1e-8)


def orthonormal(features):
    product = features.V @ features.gram @ features.V.T
    return float(np.abs(product - np.eye(features.size)).max())


def test_features_stay_orthonormal_and_exact_through_exchange_and_drop():
    state = learned().learner_.state.folded
    for changed in (
        pivot_changes.exchange(state, [1, 2, 30], [3, 4, 5], 20),
        pivot_changes.exchange(state, [0, 7], [8, 9], 20, marginal=True),
        pivot_changes.dropped(state, [3, 10, 20]),
    ):
        # Rounding, multiplied by the condition of the pivots' kernel matrix.
        assert orthonormal(changed.features) < 1e-9
        np.testing.assert_allclose(changed.window.F, changed.features.transform(changed.window.X), atol=1e-9)


def test_a_linear_function_survives_any_change_of_pivots_and_units():
    kernel = 0.01 * SquaredExponential([0.3, 3.0, 0.03]) + TREND
    target = X @ [1.0, 0.2, -3.0]
    gp = StreamingGPRegressor(kernel, noise=1e-4, tune="none", rank=30, random_state=0)
    for i in range(0, 240, 20):
        gp.partial_fit(X[i : i + 20], target[i : i + 20])
    state = gp.learner_.state
    changed = state.retuned(0.02 * Matern([0.5, 4.0, 0.05], 1.5) + TREND.moved(X[0], 3 * X.std(axis=0)), 1e-4)
    changed = pivot_changes.dropped(changed, list(range(changed.features.rank - 1)))
    far = NEW + np.array([3.0, 30.0, 0.3])  # no pivot is near
    # The prior of the coefficients pulls by noise/(rows · their variance).
    np.testing.assert_allclose(changed.predict(far).mean[:, 0], far @ [1.0, 0.2, -3.0], atol=2e-2)
