"""Target scaling: units do not matter, and answers come back in those of the targets."""

import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import InputError
from streamgp.gp.posterior import log_density
from streamgp.parameters import used_by
from streamgp.targets import TargetScaling
from streams import every_method


@every_method
@pytest.mark.parametrize("power", [-150, -20, 20, 150])
@pytest.mark.parametrize("outputs", [None, 2])
# An optimiser that has not converged carries rounding on: answers then agree to what it leaves undecided.
@pytest.mark.parametrize(("tune", "tolerance"), [("none", 1e-8), ("doubling", 5e-3)])
def test_units_do_not_matter(method, power, outputs, tune, tolerance):
    X, y = wave(130, q=outputs)
    units = np.array([10.0**power, 1.0, 3.7])
    plain = StreamingGPRegressor(**used_by(method, rank=60), random_state=0, tune=tune)
    scaled = clone(plain)
    for i in (0, 70, 100):
        j = {0: 70, 70: 100, 100: 130}[i]
        plain.partial_fit(X[i:j], y[i:j])
        scaled.partial_fit(X[i:j] * units, y[i:j] * 10.0**power)
    mean, std = plain.predict(X, return_std=True)
    other_mean, other_std = scaled.predict(X * units, return_std=True)
    assert_allclose(other_mean / 10.0**power, mean, atol=tolerance)
    assert_allclose(other_std / 10.0**power, std, atol=tolerance)
    if power < 0 or tune != "none":
        return
    jacobian = 130 * power * np.log(10) * (outputs or 1)
    assert scaled.log_evidence() == pytest.approx(plain.log_evidence() - jacobian, rel=1e-8)


@every_method
@pytest.mark.parametrize(
    "given", [{"noise": 1e198}, {"noise": 1e198, "kernel": 1e200 * kernels.SquaredExponential(1.0)}]
)
def test_targets_of_1e100_raise_no_warning(method, given):
    X, y = wave(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        gp = StreamingGPRegressor(**used_by(method, rank=30), random_state=0, **given)
        for i in range(0, 200, 50):
            gp.partial_fit(X[i : i + 50], 1e100 * y[i : i + 50])
        _, lower, upper = gp.predict(X, return_interval=0.9)
    assert np.isfinite(upper - lower).all()


SCALES = [
    (np.array([1.0]), np.array([1.0])),
    (np.array([-3.0, 1e9]), np.array([0.5, 2.0])),
    (np.array([1e150, 0.0, -1e-150]), np.array([1e150, 1.0, 1e-150])),
    (np.array([0.0]), np.array([1e-150])),
    (np.array([7e150]), np.array([1e150])),
]


every_scaling = pytest.mark.parametrize(
    "targets",
    [
        TargetScaling(offset, scale, one_dimensional, np.float64)
        for offset, scale in SCALES
        for one_dimensional in ([False, True] if scale.size == 1 else [False])
    ],
    ids=lambda t: f"{t.scale}-{'(n,)' if t.one_dimensional else '(n, q)'}",
)


@every_scaling
def test_scaling_back_undoes_the_scaling(targets):
    z = np.random.default_rng(0).standard_normal((50, targets.n_outputs))
    y = targets.offset + targets.scale * z
    back = targets.undo_mean(targets.apply(y))
    assert back.shape == ((50,) if targets.one_dimensional else y.shape)
    # A subtraction and an addition of the offset, a division and a product: four roundings of what is added.
    assert (np.abs(back.reshape(y.shape) - y) <= 4 * 2.3e-16 * (np.abs(y) + np.abs(targets.offset))).all()
    assert_allclose(targets.apply(y), z, atol=1e-15 * np.max(1 + np.abs(targets.offset / targets.scale)))


@every_scaling
def test_deviations_and_covariances_come_back_in_the_same_units(targets):
    root = np.random.default_rng(0).standard_normal((20, 20))
    covariance = root @ root.T
    std = targets.undo_std(np.stack([np.diag(covariance)] * targets.n_outputs, axis=1))
    back = targets.undo_covariance([covariance] * targets.n_outputs)
    assert std.shape == ((20,) if targets.one_dimensional else (20, targets.n_outputs))
    assert back.shape == ((20, 20) if targets.one_dimensional else (20, 20, targets.n_outputs))
    back, std = back.reshape(20, 20, -1), std.reshape(20, -1)
    for j, scale in enumerate(targets.scale):
        assert_allclose(std[:, j] / scale, np.sqrt(np.diag(covariance)), rtol=1e-15)
        assert_allclose(np.sqrt(np.diag(back[:, :, j])), std[:, j], rtol=1e-12)
        assert_allclose(back[:, :, j] / scale / scale, covariance, rtol=1e-12)


@every_scaling
def test_a_density_comes_back_as_that_of_the_targets_themselves(targets):
    z = np.random.default_rng(0).standard_normal((50, targets.n_outputs))
    standard = log_density(float((z**2).sum()), 0.0, 50, targets.n_outputs)
    # Of independent targets with the standard deviations `scale`.
    expected = standard - 50 * sum(math.log(scale) for scale in targets.scale)
    assert targets.undo_log_density(standard, 50) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_targets_are_refused_where_their_squares_would_overflow_in_units_of_the_model(scale):
    targets = TargetScaling(np.zeros(1), np.array([scale]), True, np.float64)
    z = np.array([[1.0], [0.99e150]])
    assert_allclose(targets.apply(scale * z), z)
    with pytest.raises(InputError, match="sums of squares overflow; scale y down"):
        targets.apply(1.1 * scale * z)
    for bad in (np.nan, np.inf):
        with pytest.raises(InputError, match="y contains NaN or infinity"):
            targets.apply(np.array([[1.0], [bad]]))


def test_a_number_for_each_output_is_a_number_where_there_is_one():
    one = TargetScaling(np.zeros(1), np.ones(1), True, np.float64)
    two = TargetScaling(np.zeros(2), np.ones(2), False, np.float64)
    assert one.per_output(np.array([1.5])) == 1.5
    assert isinstance(one.per_output(np.array([1.5])), float)
    assert two.per_output(np.array([1.5, 2.5])).tolist() == [1.5, 2.5]
