"""Targets in other units: what every method has learned is multiplied, exactly."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.methods.factory import empty_state
from streamgp.parameters import Settings
from streams import AFFINE, KERNEL

NOISE = np.array([0.02, 0.5, 0.03])
FACTORS = np.array([3.0, 1e-4, 70.0])
EVERY = [
    ({"method": "pivoted", "rank": 30}, KERNEL),
    ({"method": "pivoted", "memory": "rows", "rank": 200}, KERNEL),
    ({"method": "nrmf"}, KERNEL),
    ({"method": "nrmf"}, AFFINE[0]),
    ({"method": "rgp", "rank": 30}, KERNEL),
    ({"method": "srmf", "rank": 30}, KERNEL),
    ({"method": "srmf", "rank": 30, "variant": "literal"}, KERNEL),
    ({"method": "brmf", "rank": 30}, AFFINE[3]),
    ({"method": "srmf", "rank": 30}, AFFINE[0]),
    ({"method": "srmf", "rank": 30, "variant": "literal"}, AFFINE[3]),
]


def states(given, kernel, library=None):
    """A state, and one that has learned the same rows with targets multiplied; seven rows wait in `pivoted`."""
    X, y = wave(207, q=3)
    made = []
    for factors in (np.ones(3), FACTORS):
        rows, targets = (v if library is None else library.asarray(v) for v in (X, y * factors))
        state = empty_state(Settings(**given), kernel, NOISE, rows[:100, :], targets[:100, :])
        for i in range(0, 200, 100):
            state = state.update(rows[i : i + 100, :], targets[i : i + 100, :])
        made.append(state.update(rows[200:, :], targets[200:, :]))
    return made


@pytest.mark.parametrize(("given", "kernel"), EVERY, ids=str)
def test_rescaling_the_targets_of_a_state_equals_learning_them_so(given, kernel, library):
    state, expected = states(given, kernel, library)
    new, (X, y) = library.asarray(wave(20, seed=1)[0]), wave(300, q=3, seed=2)
    state.predict(new)  # what it answered before must not come back
    rescaled = state.rescaled(FACTORS)
    after = (library.asarray(X), library.asarray(y * FACTORS))
    for ours, theirs in ((rescaled, expected), (rescaled.update(*after), expected.update(*after))):
        a, b = ours.predict(new), theirs.predict(new)
        assert_allclose(library.to_numpy(a.mean), library.to_numpy(b.mean), rtol=1e-9, atol=1e-12)
        assert_allclose(library.to_numpy(a.variance), library.to_numpy(b.variance), atol=1e-12)
    assert_array_equal(rescaled.noise, state.noise)
    assert rescaled.log_evidence() == pytest.approx(expected.log_evidence(), rel=1e-9)


@pytest.mark.parametrize(("given", "kernel"), EVERY, ids=str)
def test_rescaled_means_are_multiplied_and_variances_stay(given, kernel):
    state, _ = states(given, kernel)
    new = wave(20, seed=1)[0]
    a, b = state.predict(new), state.rescaled(FACTORS).predict(new)
    size = np.abs(a.mean).max()
    assert_allclose(b.mean / FACTORS, a.mean, rtol=1e-12, atol=1e-12 * size)
    assert_allclose(b.variance, a.variance, rtol=1e-12)


@pytest.mark.parametrize(
    "given", [{"method": "pivoted", "rank": 40}, {"method": "rgp", "rank": 40}, {"method": "nrmf"}]
)
def test_a_rescaled_learner_gives_the_same_means_and_calibrated_intervals(given):
    X, y = wave(330, q=2)
    gp = StreamingGPRegressor(random_state=0, members=("gp",), **given)
    for i in range(0, 330, 60):
        gp.partial_fit(X[i : i + 60], y[i : i + 60])
    new, factors = wave(20, seed=1)[0], np.array([0.03, 20.0])
    before, std = gp.predict(new, return_interval=0.9), gp.predict(new, return_std=True)[1]
    scale = gp.y_scale_.copy()
    learner, one = gp.learner_, np.ones(2)
    gp._learner = replace(
        learner,
        state=learner.state.rescaled(factors),
        targets=learner.targets.rescaled(factors),
        sample=learner.sample.rescaled(factors),
        scores=learner.scores.retuned(factors, one, one),
    )
    assert_allclose(gp.y_scale_, scale / factors, rtol=1e-15)
    for a, b in zip(gp.predict(new, return_interval=0.9), before, strict=True):
        assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    assert_allclose(gp.predict(new, return_std=True)[1], std / factors, rtol=1e-11)
    gp.partial_fit(X, y)
    assert gp.score(X, y) > 0.5


def test_units_change_with_nothing_predicted_otherwise_where_the_kernel_changes_too():
    """For one factor: targets times f, kernel and noise times f²."""
    X, y = wave(200)
    kernel = kernels.Scaled(1.5, kernels.SquaredExponential(0.7))
    state = empty_state(Settings(rank=200), kernel, 0.02, X, y[:, None]).update(X, y[:, None])
    new, f = wave(20, seed=1)[0], 30.0
    turned = state.rescaled(np.array([f])).retuned(kernels.Scaled(1.5 * f * f, kernel.kernel), 0.02 * f * f)
    a, b = state.predict(new), turned.predict(new)
    assert_allclose(b.mean / f, a.mean, atol=1e-9)
    assert_allclose(b.variance / f**2, a.variance, atol=1e-9)
