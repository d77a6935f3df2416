"""The Optuna sampler: values that are allowed, the same from the same seed, and better ones than by chance."""

import doctest
import pickle

import numpy as np
import pytest

from streamgp.errors import ParameterError

optuna = pytest.importorskip("optuna", reason="optuna is not installed")

from streamgp.adapters import optuna as adapter  # noqa: E402
from streamgp.adapters.optuna import StreamingGPSampler  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)
STEPS = {"n": (2, 20, 3), "m": (1, 1024, 1), "f": (0.0, 1.0, 0.25)}


def everything(trial):
    """An objective with every kind of parameter; least at c="b", n=11, lr=1e-2, f=0.5."""
    c = trial.suggest_categorical("c", ["a", "b", None])
    n = trial.suggest_int("n", 2, 20, step=3)
    m = trial.suggest_int("m", 1, 1024, log=True)
    lr = trial.suggest_float("lr", 1e-5, 1.0, log=True)
    f = trial.suggest_float("f", 0.0, 1.0, step=0.25)
    trial.suggest_float("fixed", 2.0, 2.0)
    return (
        {"a": 1.0, "b": 0.0, None: 0.5}[c]
        + 0.02 * (n - 11) ** 2
        + (np.log10(lr) + 2) ** 2
        + (f - 0.5) ** 2
        + 1e-4 * m
    )


def study(n=40, direction="minimize", objective=everything, **more):
    found = optuna.create_study(direction=direction, sampler=StreamingGPSampler(**more))
    found.optimize(objective, n_trials=n)
    return found


@pytest.fixture(scope="module")
def found():
    return study()


def test_the_example_of_the_docstring_runs():
    assert doctest.testmod(adapter).failed == 0


def test_every_value_is_allowed_and_every_step_is_reached(found):
    for name, (low, high, step) in STEPS.items():
        values = np.array([t.params[name] for t in found.trials])
        assert (values >= low).all()
        assert (values <= high).all()
        np.testing.assert_array_equal((values - low) % step, 0.0)
    assert {t.params["c"] for t in found.trials} == {"a", "b", None}
    assert all(isinstance(t.params["m"], int) and 1e-5 <= t.params["lr"] <= 1.0 for t in found.trials)


def test_the_minimum_is_found_and_the_maximum_of_its_opposite(found):
    # By chance alone the best of 40 trials is about 0.5.
    assert found.best_value < 0.1
    opposite = study(direction="maximize", objective=lambda trial: -everything(trial))
    assert opposite.best_value > -0.1


def test_a_seed_gives_the_same_trials(found):
    assert [t.params for t in study().trials] == [t.params for t in found.trials]
    assert [t.params for t in study(12, seed=1).trials] != [t.params for t in found.trials[:12]]


@pytest.mark.parametrize(
    ("low", "high", "log", "step"), [(3, 9, False, 2), (1, 300, True, 1), (0.5, 2.0, False, 0.5)]
)
def test_places_and_values_are_each_others_inverse(low, high, log, step):
    kinds = optuna.distributions
    kind = (kinds.IntDistribution if isinstance(low, int) else kinds.FloatDistribution)(
        low, high, log=log, step=step
    )
    space = {
        "a": kind,
        "b": kinds.CategoricalDistribution(["x", "y"]),
        "c": kinds.FloatDistribution(1e-3, 10, log=True),
    }
    for value in np.arange(low, high + step / 2, step).tolist():
        params = {"a": value, "b": "y", "c": 0.2}
        place = adapter._place(space, params)
        assert ((place >= 0) & (place <= 1)).all()
        again = adapter._values(space, place)
        assert again.pop("c") == pytest.approx(0.2)
        assert again == {"a": value, "b": "y"}
    assert adapter._values(space, np.zeros(4))["a"] == low
    assert adapter._values(space, np.ones(4))["a"] == high


def test_failed_trials_and_infinite_values_are_not_learned():
    def objective(trial):
        x = trial.suggest_float("x", -1, 1)
        if trial.number % 5 == 3:
            raise ValueError("no convergence")
        return np.inf if trial.number % 5 == 4 else x**2

    sampler = StreamingGPSampler()
    one = optuna.create_study(sampler=sampler)
    one.optimize(objective, n_trials=25, catch=(ValueError,))
    assert sampler._gp.n_samples_seen_ == 15 - (one.trials[-1].value < np.inf)
    assert one.best_value < 0.01


def test_parameters_that_come_later_are_drawn_and_those_in_common_learned_anew():
    def objective(trial):
        x = trial.suggest_float("x", -1, 1)
        if trial.number < 15:
            return x**2 + trial.suggest_float("gone", 0, 1)
        return x**2

    sampler = StreamingGPSampler()
    one = optuna.create_study(sampler=sampler)
    one.optimize(objective, n_trials=20)
    assert sampler._gp.n_features_in_ == 1
    assert sampler._gp.n_samples_seen_ == 19


def test_trials_that_are_asked_for_at_once_are_not_the_same():
    one = study(12, objective=lambda trial: trial.suggest_float("x", -1, 1) ** 2)
    asked = [one.ask({"x": optuna.distributions.FloatDistribution(-1, 1)}) for _ in range(4)]
    assert len({t.params["x"] for t in asked}) == 4


def test_threads_learn_each_trial_once():
    sampler = StreamingGPSampler()
    one = optuna.create_study(sampler=sampler)
    one.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=40, n_jobs=4)
    assert all(t.state == optuna.trial.TrialState.COMPLETE for t in one.trials)
    assert sampler._gp.n_samples_seen_ == len(sampler._learned)
    assert pickle.loads(pickle.dumps(sampler))._learned == sampler._learned


def test_several_objectives_are_refused():
    two = optuna.create_study(directions=["minimize", "minimize"], sampler=StreamingGPSampler())
    with pytest.raises(ParameterError, match="has one objective, the study 2; use NSGAIISampler"):
        two.optimize(lambda trial: (trial.suggest_float("x", 0, 1), 0.0), n_trials=1)
