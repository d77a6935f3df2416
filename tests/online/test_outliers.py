"""A broken sensor must not destroy the model."""

import numpy as np
import pytest

import streamgp
from streamgp import StreamingGPRegressor
from streamgp.errors import InputError, ParameterError
from streamgp.online.outliers import InputMoments, far_from_median


def stream(n=1000, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * [1.0, 100.0, 1e-3][:d]
    return X, np.sin(X[:, 0]) + X[:, 1] / 100 + 0.1 * rng.standard_normal(n)


def broken(X, y, share=0.02, factor=1e6, seed=1):
    """Some rows with a feature, others with a target, far off."""
    rng = np.random.default_rng(seed)
    X, y = X.copy(), y.copy()
    at = np.flatnonzero(rng.random(len(y)) < share)
    half = len(at) // 2
    X[at[:half], rng.integers(0, X.shape[1], half)] *= factor
    X[at[:half], 0] += factor
    y[at[half:]] = factor * (1 + np.abs(y[at[half:]]))
    return X, y, at


def taught(X, y, batch=50, **given):
    gp = StreamingGPRegressor(rank=60, random_state=0, **given)
    for i in range(0, len(y), batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    return gp


@pytest.mark.parametrize("method", ["pivoted", "srmf", "rgp"])
@pytest.mark.parametrize("factor", [1e3, 1e6, 1e12])
def test_broken_rows_are_left_out_and_the_model_is_that_of_the_good_rows(method, factor):
    X, y = stream()
    bad_X, bad_y, at = broken(X, y, factor=factor)
    gp = taught(bad_X, bad_y, method=method, guard=10)
    assert gp.n_refused_ == len(at)
    assert gp.n_samples_seen_ == len(y) - len(at)
    test_X, test_y = stream(seed=9)
    clean = taught(X, y, method=method)
    error, best = (np.sqrt(np.mean((g.predict(test_X) - test_y) ** 2)) for g in (gp, clean))
    assert error < 1.1 * best
    # Without the guard these rows do harm: the test tests something.
    bare = taught(bad_X, bad_y, method=method, guard=None)
    assert np.sqrt(np.mean((bare.predict(test_X) - test_y) ** 2)) > 1.3 * best


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_good_rows_pass_whatever_their_units_and_batches(batch):
    X, y = stream(400)
    for scale in (1e-100, 1.0, 1e100):
        gp = taught(X * scale, y * scale, batch=batch, guard=10)
        assert gp.n_refused_ == 0
        np.testing.assert_array_equal(
            gp.predict(X * scale), taught(X * scale, y * scale, batch=batch).predict(X * scale)
        )


def test_refused_tells_which_rows_of_the_last_batch():
    X, y = stream(200)
    gp = taught(X[:150], y[:150], guard=10)
    X[160, 1], y[170] = 1e9, -1e9
    gp.partial_fit(X[150:], y[150:])
    assert list(np.flatnonzero(gp.refused_)) == [10, 20]
    assert gp.n_samples_seen_ == 198
    before = gp.predict(X[:5])
    gp.partial_fit(X[160:161], y[160:161])  # nothing is left: nothing changes
    np.testing.assert_array_equal(gp.predict(X[:5]), before)
    assert gp.n_refused_ == 3
    assert StreamingGPRegressor(rank=20, guard=None).fit(X[:50], y[:50]).refused_.size == 0


def test_values_that_nothing_else_would_let_through_are_refused_not_raised():
    X, y = stream(200)
    gp = taught(X[:150], y[:150], guard=10)
    y[160] = 1e200
    X[161, 0] = 1e300
    gp.partial_fit(X[150:], y[150:])
    assert gp.n_refused_ == 2
    with pytest.raises(InputError):
        taught(X[:150], y[:150], guard=None).partial_fit(X[150:], y[150:])


def test_a_jump_of_a_few_deviations_is_learned():
    X, y = stream(2000)
    y[1000:] += 4 * y.std()
    gp = taught(X, y, guard=10)
    assert gp.n_refused_ == 0


def test_a_constant_feature_may_change_by_its_size_and_no_further():
    X, y = stream(300)
    X[:, 2] = 5.0
    X[250, 2], X[251, 2] = 6.0, 5e6
    assert taught(X, y, guard=10).n_refused_ == 1


def test_guards_survive_a_checkpoint_and_a_merge(tmp_path):
    X, y = stream(600)
    gp = taught(X[:300], y[:300], guard=10)
    gp.save(tmp_path / "m.gp")
    again = streamgp.load(tmp_path / "m.gp")
    X[300, 0] = 1e6
    assert gp.partial_fit(X[300:400], y[300:400]).n_refused_ == 1
    assert again.partial_fit(X[300:400], y[300:400]).n_refused_ == 1
    np.testing.assert_array_equal(gp.predict(X[:9]), again.predict(X[:9]))


def test_the_mean_and_spread_of_two_streams_are_those_of_both():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((30, 2)) * [1, 1e80] + 3, rng.standard_normal((50, 2)) * [5, 1e80]
    one = InputMoments.none(A.std(axis=0)).add(A).merge(InputMoments.none(B.std(axis=0)).add(B))
    both = np.concatenate([A, B])
    np.testing.assert_allclose(one.mean * one.unit, both.mean(axis=0), rtol=1e-12, atol=1e66)
    np.testing.assert_allclose(np.sqrt(one.squares / one.count) * one.unit, both.std(axis=0), rtol=1e-12)


def test_few_rows_say_nothing_of_what_is_far():
    assert not far_from_median(np.array([[0.0], [1e9]]), 10).any()
    assert list(np.flatnonzero(far_from_median(np.r_[np.zeros(30), 1.0, 1e9][:, None] + 1, 10))) == [31]


@pytest.mark.parametrize("guard", [0, -1, np.inf, np.nan, "10", True])
def test_a_guard_that_is_no_number_of_deviations_is_refused(guard):
    with pytest.raises(ParameterError, match="guard"):
        StreamingGPRegressor(guard=guard).fit([[0.0], [1.0]], [0.0, 1.0])
