"""Idle pivots: which are out of use, what they are worth, and how often they come back."""

import numpy as np

from streamgp import StreamingGPRegressor
from streamgp.kernels import SquaredExponential
from streamgp.methods.idle import IdlePivots
from streamgp.methods.pivot_selection import losses

TIME = np.arange(500.0)[:, None]


def state_of(X):
    gp = StreamingGPRegressor(SquaredExponential(5.0), noise=0.01, tune="none", rank=40, random_state=0)
    for i in range(0, len(X), 20):
        gp.partial_fit(X[i : i + 20], np.sin(X[i : i + 20, 0] / 8))
    return gp.learner_.state.folded


def look(state, before=None):
    everywhere = losses(state.fit.statistics, state.features)
    return (before or IdlePivots()).looked(state.features, state.recent_rows, everywhere)


def test_pivots_that_the_last_rows_do_not_use_are_idle_and_others_are_not():
    state = state_of(TIME)
    found = look(state)
    old = state.features.Z[:, 0] < state.recent_rows.X[0, 0] - 25  # five length-scales
    assert old.any()
    assert found.idle[old].all()
    assert np.isinf(found.worth[~found.idle]).all()
    assert not look(state_of(TIME % 40)).idle.any()


def test_idle_pivots_that_never_come_back_lose_their_worth():
    state = state_of(TIME)
    found = first = look(state)
    for _ in range(50):
        found = look(state, found)
    assert found.least < 0.1 * first.least
    assert found.returned < 1


def test_an_idle_pivot_that_comes_back_is_counted():
    state = state_of(TIME)
    found = look(state)
    was = IdlePivots(found.worth, np.ones_like(found.idle), found.returned, found.observed)
    assert look(state, was).returned > found.returned


def test_a_pivot_that_was_exchanged_is_in_use():
    found = look(state_of(TIME))
    pivot = int(np.argmin(found.worth))
    after = found.exchanged([pivot])
    assert np.isinf(after.worth[pivot])
    assert not after.idle[pivot]


def test_pivots_whose_past_was_forgotten_are_idle():
    state = state_of(TIME)
    old = state.features.Z[:, 0] < state.recent_rows.X[0, 0] - 40  # eight length-scales
    forgotten = np.where(old, 0.0, losses(state.fit.statistics, state.features))
    found = IdlePivots().looked(state.features, state.recent_rows, forgotten)
    assert found.idle[old].all()
    assert np.isfinite(found.worth[old]).all()


def test_looks_in_vain_become_rare_and_an_exchange_makes_them_frequent_again():
    none = IdlePivots(worth=np.full(3, np.inf), idle=np.zeros(3, dtype=bool))
    for _ in range(3):
        none = none.in_vain()
    assert none.aged(399, 100).worth is not None
    assert none.aged(400, 100).worth is None
    # A review that exchanges pivots in use is no reason to look.
    assert none.exchanged([1]).worth is not None
    some = IdlePivots(worth=np.array([np.inf, 1.0]), idle=np.array([False, True]))
    assert some.exchanged([1]).worth is None
