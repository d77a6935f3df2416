"""Neighbours: what stored rows tell beside inducing points, and what becomes of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from conftest import wave
from streamgp import StreamingGPRegressor, kernels, load
from streamgp.methods import neighbours
from streamgp.methods.stored import Store

RNG = np.random.default_rng(3)
ROUGH = kernels.Matern(0.3, nu=1.5)
KERNELS = {
    "se": 2.0 * kernels.SquaredExponential([0.5, 0.7]),
    "matern": kernels.Matern([0.4, 0.6], nu=0.5),
    "sum": kernels.RationalQuadratic(0.5) + 0.3 * kernels.Linear(),
    "product": kernels.SquaredExponential(0.8) * kernels.Matern(1.0, nu=2.5),
    "periodic": kernels.Periodic(1.0, period=2.0),
}


def stream(n, d=2, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, d))
    return X, np.sin(5 * X[:, 0]) * np.cos(4 * X[:, -1]) + noise * rng.standard_normal(n)


def given(rank, kernel=ROUGH, **more):
    arguments = {"noise": 0.01, "tune": "none", "members": ("gp", "neighbours"), "forgetting": 1.0}
    return StreamingGPRegressor(kernel, rank=rank, random_state=0, guard=None, **{**arguments, **more})


def learned(gp, X, y, batch=50):
    for rows in range(0, len(X), batch):
        gp.partial_fit(X[rows : rows + batch], y[rows : rows + batch])
    return gp


def corrected(gp, X):
    """Return mean and latent variance of the member 'neighbours', in standardised units."""
    state, store = gp.learner_.state, gp.learner_.mixture.store
    found = state.corrected(X, state.predict(X), store)
    return found.mean, found.variance


# The correction


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("k", [1, 8, 60])
def test_the_correction_is_that_of_the_residual_process_on_the_nearest_rows(name, k):
    X, y = stream(300, seed=1)
    gp = learned(given(20, KERNELS[name], neighbours=k), X, y, batch=100)
    state, x = gp.learner_.state, stream(15, seed=2)[0]
    kernel = state.kernel
    F, f = state.features.transform(X), state.features.transform(x)
    z = gp.learner_.targets.apply(y[:, None])
    mean, variance = corrected(gp, x)
    prior, points = np.sqrt(kernel.diag(X)), {z.tobytes() for z in state.features.Z}
    for i in range(len(x)):
        near = np.argsort(-_nearness(kernel, x[i : i + 1], X, prior))[:k]
        near = near[[row.tobytes() not in points for row in X[near]]]
        R = kernel.block(X[near]) - F[near] @ F[near].T + state.noise * np.eye(near.size)
        r = kernel.block(x[i : i + 1], X[near])[0] - F[near] @ f[i]
        a = np.linalg.solve(R, r)
        plain = state.predict(x[i : i + 1])
        left = kernel.diag(x[i : i + 1])[0] - f[i] @ f[i]
        assert_allclose(mean[i], plain.mean[0] + a @ (z[near] - F[near] @ state.fit.weights), atol=2e-5)
        of_weights = plain.variance[0] - left
        apart = f[i] - F[near].T @ a
        share = min(1.0, (apart @ apart) / (f[i] @ f[i]))
        assert_allclose(variance[i], np.clip(left - r @ a, 0, left) + share * of_weights, atol=2e-5)


def _nearness(kernel, x, X, prior):
    weights = kernel.nearness(X.shape[1])
    if weights is None:
        return kernel.block(x, X)[0] / prior
    return -(((x - X) ** 2) * weights).sum(axis=1)


@pytest.mark.parametrize("noise", [0.5, 0.01])
@pytest.mark.parametrize("neighbours", [8, 64])
def test_at_full_rank_neighbours_tell_nothing(noise, neighbours):
    X, y = stream(150)
    matern = KERNELS["matern"]
    gp = learned(given(150, matern, neighbours=neighbours, noise=noise), X, y)
    exact = StreamingGPRegressor(matern, method="nrmf", noise=noise, tune="none", guard=None).fit(X, y)
    x = stream(40, seed=5)[0]
    for asked in ({}, {"return_std": True, "calibrated": False}):
        assert_allclose(gp.predict(x, **asked), exact.predict(x, **asked), atol=1e-8)


@pytest.mark.parametrize("batch", [1, 40])
def test_neighbours_see_what_few_inducing_points_cannot(batch):
    X, y = stream(1500)
    x, truth = stream(300, seed=9, noise=0.0)
    errors = [
        np.sqrt(np.mean((learned(given(30, **more), X, y, batch).predict(x) - truth) ** 2))
        for more in ({"members": ("gp",)}, {})
    ]
    assert errors[1] < 0.5 * errors[0]


def test_a_row_that_counts_for_less_has_more_noise():
    X, y = stream(200)
    whole = learned(given(10), X, y)
    store = whole.learner_.mixture.store
    state, x = whole.learner_.state, stream(10, seed=4)[0]
    plain = state.predict(x)
    by_half = state.corrected(x, plain, store.forgotten(0.5))
    state.recent.__init__()
    with_noise = state.corrected(x, plain, store)
    assert (by_half.variance > with_noise.variance).any()
    nothing = state.corrected(x, plain, store.forgotten(1e-12))
    assert_allclose(nothing.mean, plain.mean, atol=1e-6)


@pytest.mark.parametrize(
    "kernel", [kernels.Linear(), kernels.BrownianPolynomial((0.1, 1.0, 1.0)), kernels.Constant(1.0)]
)
def test_kernels_that_are_no_function_of_a_distance_are_answered(kernel):
    X, y = stream(200)
    gp = learned(given(20, kernel), X, y)
    assert np.isfinite(gp.predict(X, return_std=True)).all()


# The store


@pytest.mark.parametrize("batch", [1, 7, 100, 900])
def test_the_store_holds_the_last_rows_in_their_order(batch):
    X, y = stream(900)
    store = Store.empty(300, 4, 2, 1)
    for rows in range(0, 900, batch):
        store = store.update(X[rows : rows + batch], y[rows : rows + batch, None])
        assert store.count <= 300
    last = store.rows
    assert last.count >= 300 - 300 // 8
    assert_array_equal(last.X, X[-last.count :])
    assert_array_equal(last.y[:, 0], y[-last.count :])


def test_a_stream_stores_no_more_than_it_was_told():
    X, y = stream(2000)
    gp = learned(given(10, store=256), X, y)
    assert 200 <= gp.learner_.mixture.store.count <= 256


def test_unlearned_rows_leave_the_store():
    X, y = stream(400)
    gp, other = learned(given(40), X, y), learned(given(40), X[50:], y[50:])
    gp.unlearn(X[:50], y[:50])
    assert_array_equal(gp.learner_.mixture.store.rows.X, X[50:])
    assert gp.learner_.mixture.store.count == other.learner_.mixture.store.count


def test_merged_stores_hold_rows_of_both():
    X, y = stream(600)
    a, b = learned(given(40), X[:200], y[:200]), learned(given(40), X[200:], y[200:])
    rows = a.merge(b).learner_.mixture.store.rows.X
    assert {r.tobytes() for r in rows} == {r.tobytes() for r in X}


@pytest.mark.parametrize("more", [{}, {"kernel": None, "noise": "auto", "tune": "doubling"}])
def test_a_saved_stream_with_neighbours_goes_on_bit_for_bit(tmp_path, more):
    X, y = stream(700)
    gp = learned(given(25, **{"members": ("gp", "neighbours", "ridge"), **more}), X[:450], y[:450])
    gp.save(tmp_path / "half")
    again = load(tmp_path / "half")
    for stream_ in (gp, again):
        learned(stream_, X[450:], y[450:], 25)
    assert_array_equal(gp.predict(X, return_std=True), again.predict(X, return_std=True))


@pytest.mark.parametrize("more", [{"neighbours": 0}, {"store": 0}])
def test_neighbours_are_switched_off(more):
    X, y = stream(300)
    off = learned(given(20, members="auto", **more), X, y)
    assert list(off.members_) == ["gp"]
    plain = learned(given(20, members=("gp",)), X, y)
    assert_array_equal(off.predict(X, return_std=True), plain.predict(X, return_std=True))


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_units_do_not_matter_to_neighbours(scale):
    X, y = stream(600)
    ours = [
        learned(StreamingGPRegressor(rank=20, random_state=0), s * X, s * y).predict(s * X, return_std=True)
        for s in (1.0, scale)
    ]
    assert_allclose(ours[1][0] / scale, ours[0][0], rtol=1e-5, atol=1e-5)
    assert_allclose(ours[1][1] / scale, ours[0][1], rtol=1e-5)


def test_duplicated_rows_and_no_noise_give_numbers():
    X, y = stream(100, noise=0.0)
    gp = learned(given(20, kernels.SquaredExponential(5.0), noise=1e-12), np.tile(X, (5, 1)), np.tile(y, 5))
    assert np.isfinite(gp.predict(X, return_std=True)).all()


def test_a_matrix_that_is_not_positive_definite_gives_the_prior():
    K = -np.ones((1, 3, 3))
    K[:, 2, 2] = 1.0
    mean, left, unsure = neighbours._conditioned(K, np.zeros((1, 2)), np.ones((1, 1, 1)))
    assert_array_equal(mean, 0.0)
    assert_array_equal(left, 1.0)
    assert_array_equal(unsure, 1.0)


def test_float32_rows_are_answered_in_their_precision():
    X, y = wave(600)
    gp = learned(StreamingGPRegressor(rank=20, random_state=0), X.astype(np.float32), y.astype(np.float32))
    mean, std = gp.predict(X[:20].astype(np.float32), return_std=True)
    assert mean.dtype == std.dtype == np.float32
