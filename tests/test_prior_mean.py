"""A prior mean: the model learns what it leaves, adds it to all that it says, and keeps it."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from streamgp import StreamingGPRegressor, checkpoint, kernels, load
from streamgp.errors import CheckpointError, InputError, ParameterError
from streamgp.parameters import METHODS, used_by

RNG = np.random.default_rng(2)
X = RNG.uniform(-2, 2, (120, 2))
Y = 5 * X[:, 0] ** 2 + np.sin(3 * X[:, 1]) + 0.05 * RNG.normal(size=120)
NEW = RNG.uniform(-2, 2, (9, 2))


def rigid(x):
    """The part that physics knows."""
    return 5 * x[:, 0] ** 2


@dataclasses.dataclass(frozen=True)
class Spring:
    """The same with a stiffness of its own."""

    stiffness: float

    def __call__(self, x):
        """Return the force."""
        return self.stiffness * x[:, 0] ** 2


def model(mean, method="pivoted", **more):
    return StreamingGPRegressor(mean_function=mean, random_state=0, **used_by(method, rank=60, **more))


@pytest.mark.parametrize("method", METHODS)
def test_a_model_with_a_prior_mean_is_the_model_of_the_rest_plus_the_mean(method):
    gp, rest = model(rigid, method), model(None, method)
    for rows in np.split(np.arange(120), [60, 100]):
        if rows.size:
            gp.partial_fit(X[rows], Y[rows])
            rest.partial_fit(X[rows], Y[rows] - rigid(X[rows]))
    for asked in (
        {"return_std": True, "return_interval": 0.8},
        {"return_cov": True},
        {"latent": True, "return_std": True},
    ):
        mean, *others = gp.predict(NEW, **asked)
        expected, *same = rest.predict(NEW, **asked)
        np.testing.assert_allclose(mean, expected + rigid(NEW), rtol=1e-12)
        for i, (a, b) in enumerate(zip(others, same, strict=True)):
            ends = "return_interval" in asked and i > 0
            np.testing.assert_allclose(a, b + rigid(NEW) if ends else b, rtol=1e-12)
    np.testing.assert_allclose(gp.sample_y(NEW), rest.sample_y(NEW) + rigid(NEW)[:, None])
    assert gp.log_evidence() == rest.log_evidence()
    slope = np.stack([10 * NEW[:, 0], 0 * NEW[:, 0]], axis=1)
    np.testing.assert_allclose(gp.predict_gradient(NEW), rest.predict_gradient(NEW) + slope, atol=1e-6)
    if method != "brmf":
        np.testing.assert_allclose(
            gp.sample_function(1)(NEW), rest.sample_function(1)(NEW) + rigid(NEW), rtol=1e-10
        )


def test_what_is_known_beforehand_is_not_learned_again():
    few = slice(0, 25)
    known = np.abs(model(rigid).fit(X[few], Y[few]).predict(NEW) - rigid(NEW) - np.sin(3 * NEW[:, 1])).mean()
    plain = np.abs(model(None).fit(X[few], Y[few]).predict(NEW) - rigid(NEW) - np.sin(3 * NEW[:, 1])).mean()
    assert known < plain


def test_yesterdays_model_is_a_prior_mean_as_it_was_then(tmp_path):
    yesterday = model(None).fit(X[:80], Y[:80])
    gp = model(yesterday).fit(X[80:], Y[80:] + 1.0)
    expected = gp.predict(NEW)
    yesterday.partial_fit(X, Y + 100.0)
    np.testing.assert_array_equal(gp.predict(NEW), expected)
    gp.save(tmp_path / "today")
    again = load(tmp_path / "today")
    np.testing.assert_array_equal(again.predict(NEW), expected)
    for other in (pickle.loads(pickle.dumps(gp)), copy.deepcopy(gp), again):
        np.testing.assert_array_equal(
            other.partial_fit(X[:9], Y[:9]).predict(NEW),
            copy.deepcopy(gp).partial_fit(X[:9], Y[:9]).predict(NEW),
        )
    assert again.mean_function is again.learner_.settings.mean_function
    step = np.array([1e-4, 0.0])
    kept = model(model(None, members=("gp",)).fit(X[:80], Y[:80]), members=("gp",)).fit(X[80:], Y[80:] + 1.0)
    slope = (kept.predict(NEW + step) - kept.predict(NEW - step)) / 2e-4
    np.testing.assert_allclose(kept.predict_gradient(NEW)[:, 0], slope, atol=1e-4)


def test_a_regressor_of_scikit_learn_stays_fitted_in_a_frozen_one():
    line = LinearRegression().fit(X, Y)
    gp = clone(model(FrozenEstimator(line))).fit(X, Y)
    np.testing.assert_allclose(gp.predict(NEW), model(line.predict).fit(X, Y).predict(NEW))
    with pytest.raises(InputError, match="must be fitted, and wrapped in"):
        model(LinearRegression()).fit(X, Y)


def test_functions_and_objects_that_are_registered_are_saved(tmp_path):
    for mean, registered in ((rigid, rigid), (Spring(4.0), Spring)):
        gp = model(mean).fit(X, Y)
        with pytest.raises(CheckpointError, match="register it first"):
            gp.save(tmp_path / "model")
        assert checkpoint.register(registered) is registered
        try:
            gp.save(tmp_path / "model")
            np.testing.assert_array_equal(load(tmp_path / "model").predict(NEW), gp.predict(NEW))
        finally:
            checkpoint._CLASSES.pop("Spring", None)
            checkpoint._FUNCTIONS.pop("rigid", None)
        with pytest.raises(CheckpointError, match="register it"):
            load(tmp_path / "model")


def test_unlearning_and_merging_know_the_prior_mean():
    more = {"kernel": kernels.Matern(1.0), "members": ("gp",)}
    fixed = {"noise": 0.05, "tune": "none", "guard": None}
    gp = model(rigid, **more).set_params(**fixed).fit(X[:100], Y[:100])
    expected = gp.predict(NEW)
    gp.partial_fit(X[100:], Y[100:]).unlearn(X[100:], Y[100:])
    np.testing.assert_allclose(gp.predict(NEW), expected, atol=1e-3)  # pivots that came with the rows stay
    other = model(Spring(4.0), **more).set_params(**fixed).fit(X, Y)
    with pytest.raises(InputError, match="same mean_function"):
        gp.merge(other)
    gp.merge(model(Spring(5.0), **more).set_params(**fixed).fit(X[100:], Y[100:]))


@pytest.mark.parametrize(
    ("mean", "words"),
    [
        (lambda x: x, r"returned shape \(120, 2\) for X of shape \(120, 2\); return a mean for each row"),
        (lambda x: np.full(len(x), np.nan), "returned NaN"),
        (lambda x: 1 / 0, "failed: ZeroDivisionError"),
        (lambda x: ["a"] * len(x), "failed: ValueError"),
    ],
)
def test_a_function_that_is_no_mean_is_refused_and_nothing_is_learned(mean, words):
    with pytest.raises(InputError, match=words):
        model(mean).fit(X, Y)
    with pytest.raises(
        ParameterError, match="mean_function=3 must be a function of X, a fitted regressor, or None"
    ):
        model(3).fit(X, Y)


def test_rows_that_lack_features_are_refused_with_a_prior_mean():
    gp, gap = model(rigid).fit(X, Y), np.array([[np.nan, 1.0]])
    with pytest.raises(InputError, match="mean_function=rigid needs every feature"):
        gp.partial_fit(gap, [1.0])


def test_several_outputs_and_array_libraries_have_a_prior_mean(library):
    def both(x):
        return library.asarray(
            np.stack([5 * library.to_numpy(x)[:, 0] ** 2, library.to_numpy(x)[:, 1]], axis=1)
        )

    y = np.stack([Y, X[:, 1]], axis=1)
    gp = StreamingGPRegressor(mean_function=both, rank=60, random_state=0).fit(
        library.asarray(X), library.asarray(y)
    )
    mean = library.to_numpy(gp.predict(library.asarray(NEW)))
    assert np.abs(mean[:, 0] - 5 * NEW[:, 0] ** 2 - np.sin(3 * NEW[:, 1])).max() < 0.6
    np.testing.assert_allclose(mean[:, 1], NEW[:, 1], atol=1e-2)
