"""The ridge regression and the level of the panel: what they learn, from batches of any size, in any units."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from streamgp.online.members import LEVEL_MEMORY, FadingRidge, Known, Level

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 5)) * np.array([1.0, 1e-6, 1e6, 3.0, 1.0]) + np.array(
    [0.0, 1e-5, 1e7, 0.0, 2.0]
)
Z = np.column_stack([X[:, 0] + X[:, 3], np.sin(X[:, 4])]) + 0.1 * RNG.standard_normal((300, 2))


def linear(rows=slice(None), batch=300, fading=1.0):
    member = FadingRidge.of(X[:50], 2, fading)
    x, z = X[rows], Z[rows]
    for i in range(0, len(x), batch):
        member = member.update(x[i : i + batch], z[i : i + batch])
    return member


def test_it_is_the_ridge_regression_on_standardised_features():
    scaler = StandardScaler().fit(X)
    expected = Ridge(1.0).fit(scaler.transform(X), Z).predict(scaler.transform(X))
    assert_allclose(linear().predict(X), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("batch", [1, 7, 100])
@pytest.mark.parametrize("fading", [1.0, 0.99])
def test_batches_do_not_matter(batch, fading):
    assert_allclose(
        linear(batch=batch, fading=fading).predict(X), linear(fading=fading).predict(X), atol=1e-8
    )


def test_rows_that_fade_are_rows_of_less_weight():
    scaler, weights = StandardScaler(), 0.99 ** np.arange(299, -1, -1.0)
    scaler.fit(X, sample_weight=weights)
    expected = Ridge(1.0).fit(scaler.transform(X), Z, sample_weight=weights).predict(scaler.transform(X))
    assert_allclose(linear(fading=0.99).predict(X), expected, rtol=1e-7, atol=1e-7)
    half = linear().forgotten(0.5)
    assert half.count == 150
    assert_allclose(half.predict(X), linear().predict(X), atol=0.05)  # the prior counts twice as much


def test_rows_that_are_taken_away_were_never_there():
    none = Known(X[:0], Z[:0])
    without = linear().without(Known(X[:100], Z[:100]), none)
    assert_allclose(without.predict(X), linear(slice(100, None)).predict(X), atol=1e-8)
    assert (linear().without(Known(X, Z), none).predict(X) == 0).all()
    # The weights of rows that have faded are not known any more: it begins again with others.
    faded = linear(fading=0.99).without(Known(X[:100], Z[:100]), Known(X[100:], Z[100:]))
    assert_allclose(faded.predict(X), linear(slice(100, None), fading=0.99).predict(X), atol=1e-8)


def test_a_jump_that_was_learned_is_unlearned_when_it_is_followed():
    shift = np.array([1e4, -3.0])
    for fading in (1.0, 0.99):
        jumped = linear(slice(0, 280), fading=fading).update(X[280:], Z[280:] + shift)
        after = jumped.jumped(shift, Known(X[280:], Z[280:] + shift))
        assert_allclose(after.predict(X), linear(fading=fading).predict(X), atol=1e-5)


def test_merged_members_have_learned_the_rows_of_both():
    other = FadingRidge.of(X[200:], 2, 1.0).update(X[200:], Z[200:])  # in units of its own
    assert_allclose(linear(slice(0, 200)).merge(other).predict(X), linear().predict(X), atol=1e-8)
    assert linear().merge(linear().blank()).count == 300


def test_a_row_left_out_is_predicted_as_without_it():
    found = linear().left_out(X[-20:], Z[-20:])
    for i in range(280, 300):
        others = np.delete(np.arange(300), i)
        without = FadingRidge.of(X[:50], 2, 1.0).update(X[others], Z[others]).predict(X[i : i + 1])[0]
        # Mean and spread of the features, by which they are standardised, keep the row.
        assert_allclose(found[i - 280], without, atol=0.01)


@pytest.mark.parametrize("member", [linear(), Level.of(2).update(X, Z)], ids=["linear", "level"])
def test_other_units_of_the_targets_change_nothing_else(member):
    factors, shift = np.array([3.0, 1e-3]), np.array([5.0, -1.0])
    before = member.predict(X[:10])
    assert_allclose(member.rescaled(factors).predict(X[:10]), before * factors, rtol=1e-9)
    assert_allclose(member.moved(shift).predict(X[:10]), before - shift, rtol=1e-9, atol=1e-12)


def test_a_feature_that_does_not_vary_and_an_absurd_row_do_no_harm():
    fixed = np.column_stack([X, np.full(300, 7.0)])
    member = FadingRidge.of(fixed, 2, 1.0).update(fixed, Z)
    assert_allclose(member.predict(fixed), linear().predict(X), atol=1e-8)
    absurd = member.predict(np.full((1, 6), 1e30))
    assert (np.abs(absurd - Z.mean(axis=0)) <= 10.001 * Z.std(axis=0)).all()


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_the_size_of_the_features_does_not_matter(size):
    member = FadingRidge.of(size * X[:, :1], 2, 1.0).update(size * X[:, :1], Z)
    plain = FadingRidge.of(X[:, :1], 2, 1.0).update(X[:, :1], Z)
    assert_allclose(member.predict(size * X[:, :1]), plain.predict(X[:, :1]), rtol=1e-9)


@pytest.mark.parametrize("fading", [1.0, 0.99])
@pytest.mark.parametrize("weights", [None, np.linspace(0.1, 3.0, 300)])
def test_rows_of_any_library_teach_a_ridge_the_same(library, fading, weights):
    here, there = linear(slice(0, 50), fading=fading), linear(slice(0, 50), fading=fading)
    for rows in (slice(50, 150), slice(150, 300)):
        own = None if weights is None else weights[rows]
        here = here.update(X[rows], Z[rows], own)
        there = there.update(library.asarray(X[rows]), Z[rows], own)
    assert_allclose(there.mean, here.mean, rtol=1e-12)
    assert_allclose(there.scatter, here.scatter, rtol=1e-6, atol=1e-9)
    far = np.vstack([X[:20], np.full((1, 5), 1e30), np.full((1, 5), -1e30)])
    assert_allclose(there.predict(library.asarray(far)), here.predict(far), rtol=1e-6, atol=1e-8)


def test_a_level_that_steps_is_followed_at_once_and_one_with_noise_is_averaged():
    steps = np.repeat(RNG.standard_normal(100), 20)[:, None]
    walk = Level.of(1)
    for z in steps:
        walk = walk.update(z[None], z[None])
    assert walk.predict(X[:1]) == steps[-1]
    noisy, still = 3.0 + RNG.standard_normal((4 * int(LEVEL_MEMORY), 1)), Level.of(1)
    for z in noisy:
        still = still.update(z[None], z[None])
    assert abs(float(still.predict(X[:1])[0, 0]) - 3.0) < 0.5  # five deviations of an average by the rate .03
