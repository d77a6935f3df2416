"""The search for hyperparameters: never worse than before, within bounds, and what it finds."""

import numpy as np
import pytest

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import NumericalError
from streamgp.parameters import OBJECTIVES, used_by
from streamgp.tuning.objectives import SampleObjective
from streamgp.tuning.on_rows import tune_on_rows
from streamgp.tuning.optimise import Search
from streams import AFFINE, PARTS, plane


def test_a_tuning_never_lowers_the_objective_or_the_held_back_density():
    X, y = wave(200)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        kernel = kernels.Scaled(1.0, kernels.SquaredExponential(np.exp(rng.standard_normal(3))))
        for objective in OBJECTIVES:
            search = Search(kernel.theta, (1e-2, 1e2), tune_noise=True)
            tuned = tune_on_rows(kernel, 0.3, X, y[:, None], kind=objective, search=search)
            before, after = (
                SampleObjective(X, y[:, None], objective)(k, s)
                for k, s in ((kernel, 0.3), (tuned.kernel, tuned.noise))
            )
            assert after.value >= before.value - 1e-12
            assert after.held_out >= before.held_out - 1e-12


def test_a_failed_optimisation_leaves_the_model_as_it_was_and_says_so(monkeypatch):
    X, y = wave(300)
    gp = StreamingGPRegressor(random_state=0, rank=30).partial_fit(X[:100], y[:100])
    before = gp.kernel_

    def fail(*_):
        raise NumericalError("no")

    monkeypatch.setattr(SampleObjective, "__call__", fail)
    gp.partial_fit(X[100:], y[100:])
    assert gp.tuning_.verdict.startswith("failed")
    assert gp.kernel_ == before
    assert gp.n_samples_seen_ == 300


@pytest.mark.parametrize("method", ["pivoted", "srmf", "brmf", "nrmf", "rgp"])
@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.random.default_rng(0).standard_normal((120, 3)), np.full(120, 7.0)),
        (np.random.default_rng(0).standard_normal((120, 3)), np.zeros(120)),
        (np.ones((120, 3)), np.random.default_rng(0).standard_normal(120)),
        (np.ones((120, 3)), np.ones(120)),
    ],
    ids=["constant", "zero", "equal rows", "equal rows, constant"],
)
@pytest.mark.parametrize("tune", ["doubling", "continuous", "initial", "hybrid"])
def test_where_there_is_nothing_to_learn_from_tuning_steps_aside(method, X, y, tune):
    gp = StreamingGPRegressor(**used_by(method, rank=40), random_state=0, tune=tune)
    gp.partial_fit(X[:55], y[:55]).partial_fit(X[55:], y[55:])
    assert gp.tuning_.verdict.startswith("kept")
    mean, lower, upper = gp.predict(X, return_interval=0.9)
    assert np.isfinite([mean, lower, upper]).all()


@pytest.mark.parametrize("kernel", AFFINE[:1] + AFFINE[3:], ids=str)
def test_weights_are_not_tuned_where_there_is_nothing_to_learn_from(kernel):
    X, y = plane(200)
    for rows, targets in ((X, np.full(200, 3.0)), (np.ones((200, 3)), y)):
        gp = StreamingGPRegressor(kernel, method="srmf", rank=20, objective="training_error", random_state=0)
        gp.partial_fit(rows[:100], targets[:100]).partial_fit(rows[100:], targets[100:])
        assert gp.tuning_.verdict.startswith("kept")


@pytest.mark.parametrize("method", ["pivoted", "srmf", "rgp"])
@pytest.mark.parametrize("tune", ["doubling", "continuous"])
def test_the_same_stream_and_seed_give_the_same_hyperparameters(method, tune):
    X, y = wave(400)
    gps = [StreamingGPRegressor(**used_by(method, rank=40), random_state=3, tune=tune) for _ in range(2)]
    for gp in gps:
        for i in range(0, 400, 100):
            gp.partial_fit(X[i : i + 100], y[i : i + 100])
    assert gps[0].kernel_ == gps[1].kernel_
    assert gps[0].noise_ == gps[1].noise_


@pytest.mark.parametrize("kernel", [None, "dictionary", 2.0 * kernels.Matern([1.0, 1.0, 1.0])], ids=str)
def test_hyperparameters_stay_within_their_bounds(kernel):
    X, y = wave(300)
    gp = StreamingGPRegressor(kernel, random_state=0, rank=40, bounds=(0.9, 1.05)).fit(X, y)
    assert gp.tuning_.taken
    moved = gp.kernel_.theta - gp.learner_.schedule.centre
    assert (moved >= np.log(0.9) - 1e-12).all()
    assert (moved <= np.log(1.05) + 1e-12).all()
    assert np.abs(moved).max() > 1e-3


def test_a_feature_that_does_not_matter_gets_a_long_length_scale():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3)) * [1.0, 100.0, 0.01]
    y = np.sin(2 * X[:, 0]) + 0.05 * rng.standard_normal(600)
    gp = StreamingGPRegressor(random_state=0).fit(X, y)
    lengths = np.array(gp.kernel_.split()[1].kernel.length_scale) / [1.0, 100.0, 0.01]
    assert lengths[1] > 2 * lengths[0]
    assert lengths[2] > 2 * lengths[0]
    assert gp.noise_ * gp.y_scale_[0] ** 2 == pytest.approx(0.05**2, rel=0.5)


def test_noise_that_is_given_is_held():
    X, y = wave(300)
    for method in ("pivoted", "srmf"):
        gp = StreamingGPRegressor(noise=0.123, random_state=0, **used_by(method, rank=40)).fit(X, y)
        assert gp.tuning_.taken
        assert gp.noise_ == pytest.approx(0.123)


@pytest.mark.parametrize("frequency", [1.5, 3.0, 6.0])
@pytest.mark.parametrize("kernel", [None, "dictionary"])
def test_an_oscillation_is_not_taken_for_noise(frequency, kernel):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 20, (1000, 1))
    y = np.sin(frequency * x[:, 0]) + 0.05 * rng.standard_normal(1000)
    gp = StreamingGPRegressor(kernel, random_state=0)
    for i in range(0, 1000, 100):
        gp.partial_fit(x[i : i + 100], y[i : i + 100])
    assert gp.noise_ * gp.y_scale_[0] ** 2 < 0.01
    assert np.sqrt(np.mean((gp.predict(x) - np.sin(frequency * x[:, 0])) ** 2)) < 0.05


@pytest.mark.parametrize("size", [1e100, 1e80, 1e-100])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_targets_of_any_size_are_learned_whatever_tuning_can_make_of_them(size, objective):
    X, y = plane(200)
    for kernel, method in (
        (kernels.WeightedSum(PARTS), "srmf"),
        (kernels.SquaredExponential(1.0), "pivoted"),
    ):
        gp = StreamingGPRegressor(kernel, **used_by(method, rank=30), objective=objective, random_state=0)
        gp.partial_fit(X[:100], size * y[:100]).partial_fit(X[100:], size * y[100:])
        assert gp.n_samples_seen_ == 200
        assert np.isfinite(gp.predict(X)).all()


def test_a_mean_far_from_zero_does_not_make_everything_noise():
    X, y = plane(400)
    kernel = kernels.Constant(1e8) + kernels.SquaredExponential(1.5)
    for method in ("nrmf", "pivoted"):
        gp = StreamingGPRegressor(kernel, method=method, random_state=0)
        for i in range(0, 400, 100):
            gp.partial_fit(X[i : i + 100], y[i : i + 100] + 1e4)
        assert gp.noise_ < 0.1
        assert np.sqrt(np.mean((gp.predict(X) - y - 1e4) ** 2)) < 0.2
