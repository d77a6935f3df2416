"""NormalEquations: every operation equals doing it from the rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from streamgp.gp.normal_equations import NormalEquations
from streamgp.lowrank import Complement
from streams import random_rows, statistics_of

LAW = 1e-9  # the law's own tolerance, relative to the size of the numbers


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
    (F, y), (G, z) = random_rows(n, r, q, seed), random_rows(n + 3, r, q, seed + 1)
    both = statistics_of(np.concatenate([F, G]), np.concatenate([y, z]))
    assert_same(statistics_of(F, y).merge(statistics_of(G, z)), both, n)
    assert_same(statistics_of(F, y).add(G, z, 2.0 * len(G)), both, n)


@settings(max_examples=30, deadline=None)
@sizes
def test_moving_equals_learning_targets_that_were_moved(n, r, q, seed):
    F, y = random_rows(n, r, q, seed)
    F[:, 0] = 1.0  # the constant function is the first feature
    shift = np.random.default_rng(seed).standard_normal(q)
    constant = np.eye(r)[0]
    assert_same(statistics_of(F, y).moved(constant, shift), statistics_of(F, y - shift), n)


@settings(max_examples=30, deadline=None)
@sizes
def test_unlearning_is_the_inverse_of_learning(n, r, q, seed):
    (F, y), (G, z) = random_rows(n, r, q, seed), random_rows(n + 3, r, q, seed + 1)
    there_and_back = statistics_of(F, y).add(G, z, 7.0, 0.3).subtract(G, z, 7.0, 0.3)
    assert_same(there_and_back, statistics_of(F, y), n)


@settings(max_examples=30, deadline=None)
@sizes
def test_forgetting_equals_weighing_the_rows(n, r, q, seed):
    F, y = random_rows(n, r, q, seed)
    root = np.sqrt(0.7)
    forgotten = statistics_of(F, y).forget(0.7)
    assert_allclose(forgotten.gram, (root * F).T @ (root * F), atol=LAW * n)
    assert_allclose(forgotten.moment, (root * F).T @ (root * y), atol=LAW * n)
    assert forgotten.count == pytest.approx(0.7 * n)


@settings(max_examples=30, deadline=None)
@sizes
def test_transforming_equals_learning_the_transformed_features(n, r, q, seed):
    F, y = random_rows(n, r, q, seed)
    T = np.random.default_rng(seed + 2).standard_normal((max(1, r - 2), r))
    assert_same(statistics_of(F, y).transform(T), statistics_of(F @ T.T, y), 100 * n)


@pytest.mark.parametrize("m", [1, 3])
def test_dropping_directions_equals_learning_what_is_left(m):
    F, y = random_rows(20, 7, 2, 0)
    complement = Complement.of(np.random.default_rng(1).standard_normal((7, m)))
    assert_same(statistics_of(F, y).drop(complement), statistics_of(complement.rows(F), y))


def test_extending_equals_features_that_were_zero_before():
    F, y = random_rows(20, 5, 2, 0)
    G = np.random.default_rng(1).standard_normal((6, 3))
    new = np.concatenate([np.zeros((14, 3)), G])
    expected = statistics_of(np.concatenate([F, new], axis=1), y)
    assert_same(statistics_of(F, y).extend(F[14:], G, y[14:], np.ones(6)), expected)
    assert_same(
        statistics_of(F, y).forget(0.5).extend(F[14:], G, y[14:], np.full(6, 0.5)), expected.forget(0.5)
    )


def test_trace_error_is_the_trace_of_what_the_features_miss():
    F, y = random_rows(15, 4, 2, 1)
    assert statistics_of(F, y).trace_error == pytest.approx(30.0 - np.trace(F @ F.T), rel=1e-12)
    S = np.array([3.0, -2.0, 0.5])
    statistics = NormalEquations.of_eigenpairs(S, np.zeros((3, 1)), np.zeros((1, 1)), 5, 4.0)
    assert statistics.trace_error == pytest.approx(4.0 - S.sum())


def test_single_precision_features_are_summed_in_double():
    F, y = random_rows(1000, 5, 1, 3)
    single = F.astype(np.float32)
    assert_allclose(
        statistics_of(single, y).gram, single.astype(np.float64).T @ single.astype(np.float64), rtol=1e-14
    )
