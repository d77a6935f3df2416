"""Nearest points: the search is exact, whatever the units."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgp.gp.nearest import BLOCK, Index, largest, padded


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 5),
    n=st.integers(1, 3000),
    k=st.integers(1, 70),
    seed=st.integers(0, 9),
    same=st.booleans(),
)
def test_the_largest_are_those_of_a_sort(m, n, k, seed, same):
    values = np.random.default_rng(seed).standard_normal((m, n))
    if same:
        values = np.round(values)  # many are equal
    k = min(k, n)
    found = np.take_along_axis(padded(values), largest(padded(values), k), axis=1)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(values, axis=1)[:, n - k :])


def test_a_place_is_found_once():
    values = padded(np.zeros((2, 20 * 64 * BLOCK)))
    assert all(len(set(row)) == 64 for row in largest(values, 64).tolist())


@pytest.mark.parametrize("unit", [1e-150, 1.0, 1e150])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_distances_are_in_units_of_the_length_scale(unit, offset):
    rng = np.random.default_rng(0)
    X, Y = (rng.standard_normal((n, 3)) + offset for n in (700, 20))
    index = Index.of(unit * X, np.array([1.0, 4.0, 0.25]) / unit**2)
    exact = -0.5 * (((Y[:, None] - X) ** 2) * [1.0, 4.0, 0.25]).sum(axis=2)
    np.testing.assert_allclose(index.closeness(unit * Y)[:, :700], exact, atol=2e-3)


def test_a_reading_beyond_all_bounds_is_far_from_the_others_and_no_nan():
    X = np.random.default_rng(0).standard_normal((100, 2))
    X[7] = 1e300
    close = Index.of(X, np.ones(2)).closeness(X[:20])
    assert not np.isnan(close).any()
    assert (np.argmin(close[:, :100], axis=1)[[0, 1, 2]] == 7).all()
