"""Adaptation: errors of rows predicted ahead are those of models of earlier rows, and what is chosen by them."""

import numpy as np
import pytest

from streamgp import StreamingGPRegressor
from streamgp.gp.posterior import Posterior
from streamgp.kernels import SquaredExponential
from streamgp.methods.adaptation import Adaptation, faded, lasting_rows, without
from streamgp.methods.ahead import Looks, ahead

RNG = np.random.default_rng(5)
X = RNG.uniform(-2, 2, (600, 2))
F = np.sin(2 * X[:, 0]) + X[:, 1]


def learned(y, kernel=None, X=X, **given):
    gp = StreamingGPRegressor("auto" if kernel is None else kernel, rank=80, random_state=0, **given)
    for i in range(0, len(y), 100):
        gp.partial_fit(X[i : i + 100], y[i : i + 100])
    return gp.learner_.state.folded


@pytest.mark.parametrize("horizon", [1, 20, 300])
@pytest.mark.parametrize("share", [1.0, 0.1])
def test_errors_ahead_are_those_of_models_that_know_only_earlier_rows(horizon, share):
    state = learned(F + 0.1 * RNG.standard_normal(600), SquaredExponential(1.0), noise=0.01, tune="none")
    window, noise = state.window.last(80), state.fit.effective_noise
    past = without(state.fit.statistics, window).forget(share)
    found = ahead(Posterior(past, noise), window, horizon)
    squared = []
    for i in range(40, 80):
        known = slice(0, i - min(horizon, 20) + 1)
        A = past.gram + window.F[known].T @ window.F[known] + noise[0] * np.eye(past.rank)
        mean = window.F[i] @ np.linalg.solve(A, past.moment + window.F[known].T @ window.y[known])
        squared.append((window.y[i] - mean) ** 2 / window.y.var())
    assert found == pytest.approx(float(np.mean(squared)), rel=1e-8)


def test_fading_is_learning_the_past_with_less_weight():
    state = learned(F, SquaredExponential(1.0), noise=0.01, tune="none")
    recent = state.window.last(100)
    old = state.fit.statistics.subtract(recent.F, recent.y, 0.0)
    found = faded(state.fit.statistics, recent, 0.1)
    np.testing.assert_allclose(found.gram, 0.1 * old.gram + recent.F.T @ recent.F, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.moment, 0.1 * old.moment + recent.F.T @ recent.y, rtol=1e-10, atol=1e-10)
    assert found.count == pytest.approx(0.1 * 500 + 100)


def test_rows_count_for_less_where_noise_and_inputs_both_last():
    t = np.arange(600)
    kernel, slow = SquaredExponential(1.0), np.column_stack([np.sin(t / 23.0), np.cos(t / 37.0)])
    noise = 0.9 * np.exp(-np.arange(1, 151) / 30)
    standing = lasting_rows(kernel, slow[:300], noise)
    shuffled = lasting_rows(kernel, slow[RNG.permutation(600)][:300], noise)
    assert 5 < standing < 1 + 2 * noise.sum()
    assert 1 <= shuffled < 2.5
    assert lasting_rows(kernel, slow, ()) == 1


def test_lasting_disturbances_are_found_in_the_order_of_the_stream_and_not_in_another():
    rng, t = np.random.default_rng(1), np.arange(900)
    # Inputs and disturbances of a plant both change slowly; in another order the same rows are independent.
    slow = np.column_stack([np.sin(t / 23.0), np.cos(t / 37.0)]) + 0.1 * rng.standard_normal((900, 2))
    lasting = np.convolve(rng.standard_normal(960), np.ones(60) / 60**0.5, "valid")[:900]
    y, order = slow[:, 0] + 2.0 * lasting, rng.permutation(900)
    assert learned(y, X=slow).adaptation.dependence > 1
    assert learned(y[order], X=slow[order]).adaptation.dependence == 1


def test_a_disturbance_as_long_as_others_before_gives_up_nothing():
    y = F + 0.1 * RNG.standard_normal(600)
    y[-100:] += 3.0
    state = (
        learned(y[:500], SquaredExponential(1.0), X=X[:500], noise=0.01, tune="none")
        .update(X[500:], y[500:, None])
        .folded
    )
    given = {"horizon": 10, "rows": 600, "forget": True, "surprised": True}
    surprised = Adaptation(next_look=5000)
    assert surprised.looked(state.fit, state.window, **given, lasting=1.0).kept < 1
    assert surprised.looked(state.fit, state.window, **given, lasting=30.0).kept == 1


def test_a_single_look_that_is_not_clear_changes_nothing():
    looks = Looks.none(3).add(np.array([0.0, -0.05, 0.3]))
    assert looks.best() == 0
    assert looks.add(np.array([0.0, -0.3, 0.3])).add(np.array([0.0, -0.3, 0.3])).best() == 1


def test_looks_come_later_and_later_and_sooner_after_a_surprise():
    assert not Adaptation().is_due(199, surprised=True)
    assert Adaptation().is_due(200, surprised=False)
    looked = Adaptation(looked_at=1000, next_look=2000)
    assert not looked.is_due(1049, surprised=True)
    assert looked.is_due(1050, surprised=True)
    assert not looked.is_due(1999, surprised=False)


def test_a_look_that_was_due_anyway_does_not_take_the_place_of_one_after_a_surprise():
    # Few rows of the window are of the change; most of the others would be predicted better by a past that is wrong.
    y = np.concatenate([F[:500], -F[500:]]) + 0.1 * RNG.standard_normal(600)
    state = (
        learned(y[:500], SquaredExponential(1.0), X=X[:500], noise=0.01, tune="none")
        .update(X[500:], y[500:, None])
        .folded
    )
    given = {"horizon": 10, "rows": 600, "forget": True}
    for next_look in (600, 5000):
        looked = Adaptation(next_look=next_look).looked(state.fit, state.window, **given, surprised=True)
        assert looked.kept < 1
        assert looked.next_look == next_look
    assert Adaptation().looked(state.fit, state.window, **given, surprised=False).kept == 1
