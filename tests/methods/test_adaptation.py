"""Adaptation: errors of rows that are held back are those of a model without them, and what is chosen by them."""

import numpy as np
import pytest

from streamgp import StreamingGPRegressor
from streamgp.kernels import SquaredExponential
from streamgp.methods.adaptation import DEPENDENCES, Adaptation, faded
from streamgp.methods.held_back import Looks, _blocks, held_back

RNG = np.random.default_rng(5)
X = RNG.uniform(-2, 2, (600, 2))
F = np.sin(2 * X[:, 0]) + X[:, 1]


def learned(y, kernel=None, X=X, **given):
    gp = StreamingGPRegressor("auto" if kernel is None else kernel, rank=80, random_state=0, **given)
    for i in range(0, len(y), 100):
        gp.partial_fit(X[i : i + 100], y[i : i + 100])
    return gp.learner_.state.folded


@pytest.mark.parametrize("horizon", [2, 20, 80])
def test_errors_of_blocks_are_those_of_statistics_without_them(horizon):
    state = learned(F + 0.1 * RNG.standard_normal(600), SquaredExponential(1.0), noise=0.01, tune="none")
    fit, window = state.fit, state.window
    found = held_back(fit, window, horizon)
    total = []
    for rows, middle in _blocks(window.count, horizon):
        without = fit.statistics.subtract(window.F[rows], window.y[rows], 0.0)
        # The fit keeps the noise that it has with all rows.
        M = without.gram + fit.effective_noise[0] * np.eye(without.rank)
        error = window.y[rows] - window.F[rows] @ np.linalg.solve(M, without.moment)
        total.append(error[middle] ** 2 / window.y.var())
    assert found.blocks == pytest.approx(float(np.concatenate(total).mean()), rel=1e-8)


def test_fading_is_learning_the_past_with_less_weight():
    state = learned(F, SquaredExponential(1.0), noise=0.01, tune="none")
    recent = state.window.last(100)
    old = state.fit.statistics.subtract(recent.F, recent.y, 0.0)
    found = faded(state.fit.statistics, recent, 0.1)
    np.testing.assert_allclose(found.gram, 0.1 * old.gram + recent.F.T @ recent.F, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.moment, 0.1 * old.moment + recent.F.T @ recent.y, rtol=1e-10, atol=1e-10)
    assert found.count == pytest.approx(0.1 * 500 + 100)


def test_rows_count_for_less_where_errors_of_neighbours_are_alike():
    rng, t = np.random.default_rng(1), np.arange(600)
    # Inputs and disturbances of a plant both change slowly; in another order the same rows are independent.
    slow = np.column_stack([np.sin(t / 23.0), np.cos(t / 37.0)]) + 0.1 * rng.standard_normal((600, 2))
    lasting = np.convolve(rng.standard_normal(660), np.ones(60) / 60**0.5, "valid")[:600]
    y, order = slow[:, 0] + 2.0 * lasting, rng.permutation(600)
    assert learned(y, X=slow).adaptation.dependence > 1
    assert learned(y[order], X=slow[order]).adaptation.dependence == 1


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
    assert DEPENDENCES[0] == 1
