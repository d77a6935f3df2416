"""One tuning of a state: on statistics without a row, and what the state makes of the outcome."""

import time

import pytest

from conftest import Counting, wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import NumericalError
from streamgp.evaluation import prequential
from streamgp.methods.pivoted import PivotedState
from streamgp.methods.spectral import SpectralState
from streamgp.methods.weighted import WeightedState
from streamgp.parameters import used_by
from streamgp.tuning.objectives import StatisticsObjective
from streamgp.tuning.optimise import Search, tune
from streams import (
    PARTS,
    plane,
)


def test_an_evaluation_of_weights_takes_no_kernel_entry_and_no_row():
    X, y = wave(200)
    parts = tuple(Counting(k) for k in PARTS)
    gp = StreamingGPRegressor(
        kernels.WeightedSum(parts), method="srmf", rank=20, random_state=0, tune="initial", initial_batches=1
    ).partial_fit(X, y)
    model = gp.learner_.state
    assert isinstance(model, WeightedState)
    for part in parts:
        part.taken()
    objective = StatisticsObjective(*model.weight_statistics, "evidence")
    search = Search(model.kernel.theta, (1e-3, 1e3), tune_noise=True)
    tuned = tune(objective, model.kernel, 0.5, search)
    assert tuned.evaluations > 2
    assert [part.taken() for part in parts] == [0, 0, 0]


@pytest.mark.parametrize("method", ["srmf", "brmf"])
def test_hybrid_goes_over_to_the_kernels_own_factor(method):
    X, y = wave(500)
    gp = StreamingGPRegressor(
        kernels.BrownianPolynomial((0.1, 1.0, 1.0)),
        **used_by(method, rank=40),
        tune="hybrid",
        initial_batches=3,
    )
    kinds = []
    for i in range(0, 500, 100):
        gp.partial_fit(X[i : i + 100], y[i : i + 100])
        kinds.append(type(gp.learner_.state))
    assert kinds == [WeightedState, WeightedState, SpectralState, SpectralState, SpectralState]
    assert gp.kernel_.weights != (0.0, 1.0, 1.0)
    assert gp.learner_.state.count == 500


def test_a_kernel_that_the_model_cannot_take_is_not_taken(monkeypatch):
    X, y = wave(300)
    gp = StreamingGPRegressor(random_state=0, rank=30).partial_fit(X[:100], y[:100])
    before = gp.kernel_

    def fail(*_):
        raise NumericalError("not positive definite")

    monkeypatch.setattr(PivotedState, "retuned", fail)
    gp.partial_fit(X[100:], y[100:])
    assert gp.tuning_.verdict == "failed: not positive definite"
    assert gp.kernel_ == before


def test_the_time_of_carrying_the_past_over_is_tuning_time(monkeypatch):
    X, y = plane(200)
    gp = StreamingGPRegressor(random_state=0, rank=30).partial_fit(X[:90], y[:90])
    original = PivotedState.retuned

    def slow(self, kernel, noise):
        time.sleep(0.2)
        return original(self, kernel, noise)

    monkeypatch.setattr(PivotedState, "retuned", slow)
    (record,) = prequential(gp, X[90:], y[90:], 110)
    assert record.tuning == "taken"
    assert record.tuning_seconds >= 0.2
