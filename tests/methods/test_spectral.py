"""`srmf` and `brmf`: the randomized eigendecompositions of the paper."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone

from conftest import benchmark_hyperparameters, real_data, wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import NegativeVarianceWarning
from streamgp.evaluation import prequential
from streamgp.methods.spectral import SpectralConfig, SpectralState
from streams import (
    APPROXIMATIONS,
    KERNEL,
    LOW_RANK_IDS,
    assert_predict_alike,
    learned,
)


@pytest.mark.parametrize(
    "kernel", [kernels.DistancePolynomial((0.2, 1.0, 0.5)), kernels.DistancePolynomial((0.0, 1.0))]
)
@pytest.mark.parametrize("given", APPROXIMATIONS[:4], ids=LOW_RANK_IDS[:4])
@pytest.mark.filterwarnings("ignore::streamgp.errors.NegativeVarianceWarning")
def test_at_full_rank_an_indefinite_kernel_is_exact_too(kernel, given):
    X, y = wave(60)
    exact, other = (
        learned(X, y, 20, kernel=kernel, noise=0.3, rank=60, **a) for a in ({"method": "nrmf"}, given)
    )
    new = wave(30, seed=1)[0]
    K, cross = kernel.block(X) + (0.3 + kernel.nugget) * np.eye(60), kernel.block(new, X)
    assert_allclose(exact.predict(new), cross @ np.linalg.solve(K, y), atol=1e-8)
    assert_predict_alike(other, exact, new, 1e-7)


def spectral_state(kernel, sequential, literal, rank=12, noise=0.01, batches=(40, 1, 30, 29)):
    """A state that has learned a wave with two outputs batch by batch, and its rows."""
    X, y = wave(sum(batches), q=2)
    state = SpectralState.empty(SpectralConfig(rank, 5, 0, sequential, literal), kernel, noise, X, y)
    for end, b in zip(np.cumsum(batches), batches, strict=True):
        state = state.update(X[end - b : end], y[end - b : end])
    return state, X, y


@pytest.mark.parametrize("kernel", [KERNEL, kernels.DistancePolynomial((0.0, 1.0, 0.5))], ids=str)
@pytest.mark.parametrize("sequential", [True, False], ids=["srmf", "brmf"])
@pytest.mark.parametrize("literal", [True, False], ids=["printed factor", "projected factor"])
@pytest.mark.parametrize("noise", [1e-4, 0.01, 2.0])
def test_the_printed_prediction_adds_what_the_factor_left_out_divided_by_the_noise(
    kernel, sequential, literal, noise
):
    """(USUᵀ + σ²I)⁻¹ = U(S + σ²)⁻¹Uᵀ + σ⁻²(I − UUᵀ): the second term meets the exact k_x only."""
    state, X, y = spectral_state(kernel, sequential, literal, noise=noise)
    printed, projected = (replace(state, config=replace(state.config, literal=to)) for to in (True, False))
    new, U = wave(20, seed=1)[0], state.factor.U
    k_x = kernel.block(X, new)
    k_out, y_out = (v - U @ (U.T @ v) for v in (k_x, y))
    size = np.abs(k_x.T @ k_x).max() / noise  # of the terms that cancel
    a, b = printed.predict(new), projected.predict(new)
    assert_allclose(a.mean - b.mean, k_out.T @ y_out / noise, rtol=0, atol=1e-12 * size)
    lost = (k_out**2).sum(axis=0)[:, None] / noise + np.zeros((1, 2))
    assert_allclose(b.variance - a.variance, lost, rtol=0, atol=1e-12 * size)
    covariances = [s.predict(new, covariance=True).covariance[1] for s in (projected, printed)]
    assert_allclose(covariances[0] - covariances[1], k_out.T @ k_out / noise, rtol=0, atol=1e-12 * size)


@pytest.mark.parametrize("sequential", [True, False], ids=["srmf", "brmf"])
def test_the_exact_cross_covariance_makes_variances_negative_though_no_eigenvalue_is(sequential):
    state, X, _ = spectral_state(KERNEL, sequential, literal=False, noise=1e-4)
    assert (state.factor.S > 0).all()
    printed = replace(state, config=replace(state.config, literal=True))
    assert (printed.predict(X).variance < 0).all()
    assert (state.predict(X).variance > 0).all()


@pytest.mark.parametrize("sequential", [True, False], ids=["srmf", "brmf"])
@pytest.mark.parametrize("literal", [True, False], ids=["printed factor", "projected factor"])
def test_the_cross_covariance_and_not_the_factor_decides_whether_predictions_diverge(sequential, literal):
    state, _, y = spectral_state(KERNEL, sequential, literal, noise=1e-4)
    new, truth = wave(50, seed=1, q=2)
    for exact_cross in (True, False):
        found = replace(state, config=replace(state.config, literal=exact_cross)).predict(new).mean
        error = np.sqrt(((found - truth) ** 2).mean()) / y.std()
        assert error > 50 if exact_cross else error < 1.5


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["srmf", "brmf"]),
    st.integers(1, 60),
    st.integers(5, 40),
    st.floats(-6.0, 1.0).map(lambda power: 10.0**power),
    st.integers(0, 40),
    st.integers(0, 10**6),
)
def test_the_projected_variant_is_never_surer_than_the_exact_gp(method, rank, batch, noise, copies, seed):
    X, y = wave(80, seed=seed)
    X[40 : 40 + copies] = X[:copies]
    new = np.concatenate([wave(30, seed=seed + 1)[0], X[:10]])
    states = [learned(X, y, batch, noise=noise, method=m, rank=rank).learner_.state for m in (method, "nrmf")]
    ours, exact = (s.predict(new) for s in states)
    # Rounding; the prior variance is 1.5, condition numbers reach 1e8.
    assert (ours.variance - exact.variance).min() > -1e-11
    assert ours.variance.min() > -1e-12
    covariances = [s.predict(new, covariance=True).covariance[0] for s in states]
    assert np.linalg.eigvalsh(covariances[0] - covariances[1]).min() > -1e-11


def test_kin40k_projected_srmf_is_stable_where_the_printed_algorithm_diverges():
    """PAPER-NOTES 3 at a fifth of the rows; the benchmark runs all of them."""
    data, hyper = real_data("kin40k.npz"), benchmark_hyperparameters("kin40k")
    order = np.random.default_rng(0).permutation(len(data["X"]))[:2000]
    X, y = data["X"][order], data["y"][order].ravel()
    X = (X - X[:500].mean(axis=0)) / X[:500].std(axis=0)
    y = (y - y[:500].mean()) / y[:500].std()
    kernel = hyper["c"] * kernels.SquaredExponential(hyper["ls"])
    errors = {}
    for variant in ("projected", "literal"):
        gp = StreamingGPRegressor(
            kernel, tune="none", noise=hyper["s2"], method="srmf", rank=60, variant=variant, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NegativeVarianceWarning)
            errors[variant] = np.mean(
                [r.rmse for r in prequential(gp, X, y, 100, first=500) if r.rmse is not None]
            )
    assert errors["projected"] < 0.8
    assert errors["literal"] > 10


@pytest.mark.parametrize("weights", [(0.0, 1.0), (0.0, 1.0, 1.0), (0.0, 1.0, 0.5, 0.1)])
@pytest.mark.parametrize("tune", ["none", "doubling"])
@pytest.mark.parametrize("copies", [1, 2])
def test_srmf_learns_the_distance_kernel_from_single_rows(weights, tune, copies):
    """k(x, x) = 0: of the first row alone the factor keeps nothing."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((60 // copies, 3)), copies, axis=0)
    y, kernel = np.sin(X.sum(axis=1)), kernels.DistancePolynomial(weights)
    given = {"noise": 0.01, "tune": tune, "objective": "training_error", "random_state": 0}
    gp = StreamingGPRegressor(kernel, method="srmf", rank=60, **given)
    for i in range(60):
        gp.partial_fit(X[i : i + 1], y[i : i + 1])
    assert gp.rank_ >= 60 // copies
    new, kernel = rng.standard_normal((30, 3)), gp.kernel_
    exact = kernel.block(new, X) @ np.linalg.solve(kernel.block(X) + gp.noise_ * np.eye(60), y)
    assert_allclose(gp.predict(new), exact, atol=1e-6)


@pytest.mark.parametrize("tune", ["none", "doubling"])
@pytest.mark.parametrize("weights", [(0.0, 1.0), (0.0, 1.0, 1.0)])
def test_srmf_learns_the_distance_kernel_behind_many_equal_rows(weights, tune):
    X, y = wave(100)
    X, y = np.r_[np.repeat(X[:1], 40, axis=0), X], np.r_[np.repeat(y[:1], 40), y]
    kernel = kernels.DistancePolynomial(weights)
    gp = StreamingGPRegressor(kernel, method="srmf", rank=20, tune=tune, noise=0.01, random_state=0)
    for i in range(140):
        gp.partial_fit(X[i : i + 1], y[i : i + 1])
    assert gp.rank_ >= 20


def test_a_large_batch_equals_its_parts():
    X, y = wave(4500)
    gp = StreamingGPRegressor(
        kernels.SquaredExponential(2.0), tune="none", noise=0.1, method="srmf", rank=30, random_state=0
    )
    whole = clone(gp).partial_fit(X, y)
    parts = clone(gp)
    for i in range(0, 4500, 2000):
        parts.partial_fit(X[i : i + 2000], y[i : i + 2000])
    assert_allclose(whole.predict(X), parts.predict(X), atol=1e-10)
