"""Derivatives of predictions by the inputs agree with finite differences, for every kernel and method."""

from dataclasses import dataclass

import numpy as np
import pytest

from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import InputError
from streamgp.parameters import METHODS, used_by

RNG = np.random.default_rng(5)
X = RNG.normal(size=(140, 3)) * [1.0, 5.0, 0.2]
Y = np.sin(2 * X[:, 0]) + 0.1 * X[:, 1] + np.cos(X[:, 2] * 4) + 0.05 * RNG.normal(size=140)
NEW = RNG.normal(size=(12, 3)) * [1.0, 5.0, 0.2]
SCALES = [1.0, 5.0, 0.3]


@dataclass(frozen=True)
class Own(kernels.SquaredExponential):
    """A kernel of a user's, who has not written its derivatives."""

    input_gradient = kernels.Kernel.input_gradient


KERNELS = [
    kernels.SquaredExponential(SCALES),
    2.0 * kernels.Matern(SCALES, nu=1.5),
    kernels.Matern(2.0, nu=2.5) * kernels.RationalQuadratic(SCALES, alpha=0.7),
    kernels.Matern(SCALES, nu=0.5) + kernels.Constant(0.5),
    kernels.Periodic(1.2, period=[3.0, 20.0, 1.0]) + 0.5 * kernels.Linear(SCALES),
    kernels.Matern(SCALES) * kernels.Linear(SCALES) + kernels.Trend([0.1, 0.2, 0.0], SCALES, 1.0, 2.0),
    kernels.WeightedSum((kernels.Matern(1.0), kernels.Linear(3.0)), (0.4, 0.6)),
    kernels.BrownianPolynomial((0.0, 0.7, 0.2)),
    Own(SCALES),
]


def differences(f, x):
    """Central differences; steps of 1e-5 deviations leave errors of 1e-9 or so."""
    out = []
    for j, size in enumerate((1.0, 5.0, 0.2)):
        step = np.zeros(3)
        step[j] = 1e-5 * size
        out.append((f(x + step) - f(x - step)) / (2 * step[j]))
    return np.stack(out, axis=1)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: repr(k)[:40])
def test_derivatives_of_a_kernel_are_finite_differences(kernel):
    C = RNG.normal(size=(12, 140))
    found = kernel.input_gradient(NEW, X, C)
    np.testing.assert_allclose(
        found, differences(lambda x: (kernel.block(x, X) * C).sum(axis=1), NEW), atol=2e-6
    )
    np.testing.assert_allclose(kernel.diag_input_gradient(NEW), differences(kernel.diag, NEW), atol=1e-6)


def agree(gp, x=NEW, atol=1e-5):
    mean, std = gp.predict_gradient(x, return_std=True)
    latent = gp.predict_gradient(x, return_std=True, latent=True)[1]

    def told(**more):
        return lambda at: gp.predict(at, return_std=True, calibrated=False, **more)

    np.testing.assert_allclose(mean, differences(lambda at: told()(at)[0], x), atol=atol)
    np.testing.assert_allclose(std, differences(lambda at: told()(at)[1], x), atol=atol)
    np.testing.assert_allclose(latent, differences(lambda at: told(latent=True)(at)[1], x), atol=atol)
    np.testing.assert_array_equal(gp.predict_gradient(x), mean)


@pytest.mark.parametrize("kernel", KERNELS[:-2], ids=lambda k: repr(k)[:40])
@pytest.mark.parametrize("method", METHODS)
def test_derivatives_of_predictions_are_finite_differences(method, kernel):
    more = used_by(method, rank=50, members=("gp",))
    gp = StreamingGPRegressor(kernel, noise=0.05, random_state=0, tune="none", **more)
    agree(gp.fit(X[:100], Y[:100]).partial_fit(X[100:], Y[100:], np.linspace(0.5, 3, 40)), atol=1e-4)


@pytest.mark.parametrize("q", [1, 3])
def test_derivatives_of_the_default_are_of_the_gaussian_process_with_rows_pending(q):
    y = Y if q == 1 else np.stack([Y, 100 * Y**2, RNG.normal(size=140)], axis=1)
    gp = StreamingGPRegressor(random_state=0, members=("gp",)).fit(X[:100], y[:100])
    for i in range(100, 120):
        gp.partial_fit(X[i : i + 1], y[i : i + 1])
    assert gp.learner_.state.pending.count
    agree(gp, atol=1e-4 * np.abs(y).max())
    panel = StreamingGPRegressor(random_state=0).fit(X, y)
    assert panel.predict_gradient(NEW).shape == ((12, 3) if q == 1 else (12, 3, 3))
    alone = StreamingGPRegressor(random_state=0, members=("gp",)).fit(X, y)
    np.testing.assert_array_equal(panel.predict_gradient(NEW), alone.predict_gradient(NEW))


@pytest.mark.parametrize(("method", "variant"), [("srmf", "literal"), ("brmf", "projected")])
def test_parts_and_printed_algorithms_are_differentiated_by_differences(method, variant):
    kernel = kernels.WeightedSum((kernels.Matern(1.0), kernels.Linear(3.0)), (0.4, 0.6))
    gp = StreamingGPRegressor(kernel, method=method, variant=variant, noise=0.2, rank=150, random_state=0)
    agree(gp.fit(X, Y), atol=1e-3)


def test_outputs_that_lack_labels_are_differentiated_apart():
    y = np.stack([Y, Y**2], axis=1)
    y[100:, 1] = np.nan
    gp = StreamingGPRegressor(
        2.0 * kernels.Matern(SCALES), noise=0.05, tune="none", members=("gp",), random_state=0
    )
    agree(gp.fit(X[:100], y[:100]).partial_fit(X[100:], y[100:]), atol=1e-4)


def test_a_model_that_learned_rows_with_gaps_is_differentiated_at_whole_rows_only():
    gaps = X.copy()
    gaps[np.random.default_rng(0).random(X.shape) < 0.15] = np.nan
    gp = StreamingGPRegressor(random_state=0, members=("gp",)).fit(gaps, Y)
    agree(gp, atol=1e-4)
    new = NEW.copy()
    new[3, 1] = np.nan
    for ask, words in ((gp.predict_gradient, "derivatives are"), (gp.sample_function(0), "a draw is")):
        with pytest.raises(
            InputError, match=rf"row 3 of X lacks feature 1 \(NaN\), and {words} of a function"
        ):
            ask(new)


def test_single_precision_and_other_libraries_are_differentiated_too(library):
    gp = StreamingGPRegressor(2.0 * kernels.Matern(SCALES), noise=0.05, tune="none", random_state=0)
    expected = gp.fit(X, Y).predict_gradient(NEW)
    x, y, new = (library.asarray(v.astype(np.float32)) for v in (X, Y, NEW))
    other = StreamingGPRegressor(2.0 * kernels.Matern(SCALES), noise=0.05, tune="none", random_state=0).fit(
        x, y
    )
    np.testing.assert_allclose(library.to_numpy(other.predict_gradient(new)), expected, atol=5e-2)
