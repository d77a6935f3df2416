"""Neighbours through what a stream brings: outputs, weights, forgetting, calibration, threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamgp import StreamingGPRegressor, kernels
from streamgp.methods.stored import Store

ROUGH = kernels.Matern(0.3, nu=1.5)


def stream(n, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1]) + noise * rng.standard_normal(n)


def given(**more):
    arguments = {"noise": 0.01, "tune": "none", "members": ("gp", "neighbours"), "forgetting": 1.0}
    return StreamingGPRegressor(ROUGH, rank=25, random_state=0, guard=None, **{**arguments, **more})


def learned(gp, X, y, batch=50, weights=None):
    for i in range(0, len(X), batch):
        gp.partial_fit(
            X[i : i + batch], y[i : i + batch], None if weights is None else weights[i : i + batch]
        )
    return gp


def corrected(gp, x):
    learner = gp.learner_
    found = learner.state.corrected(x, learner.state.predict(x), learner.mixture.store)
    return found.mean, found.variance


@pytest.mark.parametrize("k", [5, 40])
def test_outputs_are_corrected_as_if_each_were_alone(k):
    X, y = stream(300)
    both, x = np.column_stack([y, np.cos(3 * X[:, 1])]), stream(20, seed=4)[0]
    together = learned(given(neighbours=k), X, both)
    for j in range(2):
        alone = learned(given(neighbours=k), X, both[:, j])
        for a, b in zip(corrected(together, x), corrected(alone, x), strict=True):
            assert_allclose(a[:, j], b[:, 0], atol=1e-9)


def test_outputs_with_noises_of_their_own_are_corrected_by_them():
    X, y = stream(300)
    gp = learned(given(noise="auto"), X, np.column_stack([y, y]))
    learner, x = gp.learner_, stream(20, seed=4)[0]
    state = learner.state
    apart = type(state)(**{**vars(state), "noise": np.array([0.01, 1.0])})
    means = apart.corrected(x, state.predict(x), learner.mixture.store).mean - state.predict(x).mean
    for j, noise in enumerate((0.01, 1.0)):
        alike = type(state)(**{**vars(state), "noise": np.full(2, noise)})
        expected = alike.corrected(x, state.predict(x), learner.mixture.store).mean - state.predict(x).mean
        assert_allclose(means[:, j], expected[:, j], atol=1e-9)
    assert np.abs(means[:, 0] - means[:, 1]).max() > 0.1


@pytest.mark.parametrize("neighbours", [3, 12])
def test_a_stored_row_of_weight_w_has_the_noise_over_w(neighbours):
    X, y = stream(200)
    weights = np.random.default_rng(2).uniform(0.1, 4.0, 200)
    gp = learned(given(neighbours=neighbours), X, y, weights=weights)
    learner, x = gp.learner_, stream(12, seed=5)[0]
    state, Z = learner.state, {z.tobytes() for z in learner.state.features.Z}
    F, f = state.features.transform(X), state.features.transform(x)
    mean = corrected(gp, x)[0]
    for i in range(len(x)):
        near = np.argsort(((x[i] - X) ** 2).sum(axis=1))[:neighbours]
        near = near[[row.tobytes() not in Z for row in X[near]]]
        R = ROUGH.block(X[near]) - F[near] @ F[near].T + np.diag(0.01 / weights[near])
        a = np.linalg.solve(R, ROUGH.block(x[i : i + 1], X[near])[0] - F[near] @ f[i])
        left = y[near] - (F[near] @ state.fit.weights)[:, 0]
        assert_allclose(mean[i, 0], (f[i] @ state.fit.weights)[0] + a @ left, atol=2e-5)


@pytest.mark.parametrize("batch", [1, 10])
def test_stored_rows_fade_by_the_rate_of_forgetting(batch):
    X, y = stream(100)
    gp = learned(given(forgetting=0.99), X, y, batch)
    batches_since = np.arange(100)[::-1] // batch
    assert_allclose(gp.learner_.mixture.store.rows.weights, 0.99**batches_since, rtol=1e-9)


@pytest.mark.parametrize("noise", [0.0005, 0.2])
def test_intervals_with_neighbours_cover_what_they_promise_where_the_noise_is_wrong(noise):
    X, y = stream(1500)
    gp, inside = given(noise=noise), []
    learned(gp, X[:300], y[:300])
    for i in range(300, 1500, 50):
        _, low, high = gp.predict(X[i : i + 50], return_interval=0.9)
        inside.append((low <= y[i : i + 50]) & (y[i : i + 50] <= high))
        gp.partial_fit(X[i : i + 50], y[i : i + 50])
    assert 0.86 < np.mean(inside) < 0.94


def test_threads_that_ask_one_store_under_other_kernels_get_their_own_neighbours():
    X, y = stream(1200)
    store = Store.empty(4000, 6, 2, 1).update(X, y[:, None])
    store = store.update(X + 1e-3, y[:, None])
    asked = [kernels.SquaredExponential([1.0, s]) for s in (0.01, 1.0, 100.0)]
    x = stream(40, seed=3)[0]
    expected = [Store.empty(4000, 6, 2, 1).merge(store).nearest(k, x, 6).y.sum() for k in asked]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda i: store.nearest(asked[i % 3], x, 6).y.sum(), range(60)))
    assert_allclose(found, [expected[i % 3] for i in range(60)], rtol=1e-12)


def test_covariances_and_the_latent_function_do_not_know_neighbours():
    X, y = stream(300)
    x = stream(30, seed=7)[0]
    panel, alone = (learned(given(members=m), X, y) for m in (("gp", "neighbours"), ("gp",)))
    for question in ({"return_cov": True, "calibrated": False}, {"return_std": True, "latent": True}):
        for mine, theirs in zip(panel.predict(x, **question), alone.predict(x, **question), strict=True):
            assert_array_equal(mine, theirs)
    assert np.abs(panel.predict(x) - alone.predict(x)).max() > 0.05
