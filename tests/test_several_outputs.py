"""Several outputs: an output is learned as if it were alone, however noisy its neighbours."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import wave
from streamgp import StreamingGPRegressor, kernels, load
from streamgp.gp import shifted
from streamgp.parameters import used_by


def precise(n, seed=0, noise=0.01):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    return X, np.sin(3 * X[:, 0]) * X[:, 1] + noise * rng.standard_normal(n)


def neighbours(kind, n):
    """Other outputs of n rows: noise, in other units, with an outlier, silent at first, functions of their own."""
    rng = np.random.default_rng(7)
    noise = rng.standard_normal((n, 5))
    X = precise(n)[0]
    own = np.sin(2 * X[:, :1] + [0.0, 1.0]) + X[:, 1:2] + noise[:, :2] * [0.3, 3.0]
    outlier, silent = noise[:, :1].copy(), 1e3 * noise[:, :1]
    outlier[n // 4], silent[: n // 2] = 1e6, 0.0
    return {
        "noise": noise[:, :1],
        "much noise": 1e4 * noise,
        "an outlier": outlier,
        "silent at first": silent,
        "functions": own * [1e3, 1.0],
    }[kind]


def learned(X, y, batch=50, **given):
    gp = StreamingGPRegressor(random_state=0, **used_by(given.pop("method", "pivoted"), rank=100, **given))
    for i in range(0, len(X), batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    return gp


@pytest.fixture(scope="module")
def alone():
    """The error of the precise output alone, of each method."""
    known = {}

    def error(method, n):
        if (method, n) not in known:
            known[method, n] = error_of(learned(*precise(n), method=method))
        return known[method, n]

    return error


def error_of(gp, output=None):
    X, truth = precise(500, seed=1, noise=0.0)
    mean = gp.predict(X)
    return float(np.sqrt(np.mean(((mean if output is None else mean[:, output]) - truth) ** 2)))


@pytest.mark.parametrize("kind", ["noise", "much noise", "an outlier", "silent at first", "functions"])
def test_a_precise_output_is_learned_as_if_it_were_alone(kind, alone):
    X, y = precise(1000)
    others = neighbours(kind, 1000)
    gp = learned(X, np.c_[others[:, :1], y, others[:, 1:]])
    # Length-scales are shared, and tuned on the evidence of all: from draw to draw the ratio is .92 to 1.07.
    assert error_of(gp, 1) <= 1.1 * alone("pivoted", 1000)


@pytest.mark.parametrize("method", ["nrmf", "rgp", "srmf"])
def test_every_method_learns_a_precise_output_beside_noise(method, alone):
    X, y = precise(450)
    gp = learned(X, np.c_[y, neighbours("much noise", 450)[:, 0]], method=method)
    # Kernels are tuned on other evidence, so that errors differ a little; with one noise for both it is 20 times.
    assert error_of(gp, 0) <= 1.3 * alone(method, 450)


def test_intervals_of_every_output_keep_their_promise():
    X, y = precise(1500)
    others = neighbours("functions", 1500)
    Y = np.c_[y, others, neighbours("much noise", 1500)[:, 0]]
    gp = learned(X[:1000], Y[:1000])
    _, lower, upper = gp.predict(X[1000:], return_interval=0.9)
    inside = ((lower <= Y[1000:]) & (Y[1000:] <= upper)).mean(axis=0)
    assert (inside > 0.85).all()
    assert (inside < 0.95).all()
    # The Gaussian processes' own deviations are right too: calibration has little to mend.
    reach = learned(X[:1000], Y[:1000], members=("gp",)).interval_factor(0.9)
    assert (np.abs(np.log(reach / 1.645)) < 0.25).all()


def test_an_output_scales_with_its_units_and_changes_no_other():
    X, y = wave(400, q=3)
    factors = np.array([1e-6, 1.0, 1e5])
    a, b = learned(X, y), learned(X, factors * y)
    new = wave(50, seed=1)[0]
    for one, other in zip(a.predict(new, return_std=True), b.predict(new, return_std=True), strict=True):
        assert_allclose(other / factors, one, rtol=1e-4, atol=1e-6)


def test_the_noise_is_a_number_for_one_output_and_an_array_for_several():
    X, y = wave(120, q=2)
    one, column, two = (
        StreamingGPRegressor(rank=20, random_state=0).fit(X, v) for v in (y[:, 0], y[:, :1], y)
    )
    assert isinstance(one.noise_, float)
    assert column.noise_.shape == (1,)
    assert column.noise_[0] == one.noise_
    assert two.noise_.shape == (2,)
    assert two.noise_[0] != two.noise_[1]
    two.noise_[:] = 0.0  # a copy
    assert (two.noise_ > 0).all()


def test_a_noise_that_is_given_holds_for_every_output():
    X, y = wave(300, q=3)
    gp = StreamingGPRegressor(noise=0.07, rank=20, random_state=0)
    for i in range(0, 300, 60):
        gp.partial_fit(X[i : i + 60], y[i : i + 60])
    assert_allclose(gp.noise_ * gp.y_scale_**2, 0.07)


def test_seven_outputs_need_at_most_three_factorisations_a_fold(monkeypatch):
    """Of (r, r) matrices; one output, and outputs of equal noise, need one."""
    X, y = wave(600, q=7)
    y = y + np.geomspace(1e-3, 10.0, 7) * np.random.default_rng(0).standard_normal(y.shape)
    kernel, factored, real = kernels.SquaredExponential(1.0), [], shifted.cholesky
    monkeypatch.setattr(shifted, "cholesky", lambda *given: factored.append(1) or real(*given))
    for outputs, given, most in ((y, {}, 3), (y[:, 0], {}, 1), (y, {"noise": 0.1}, 1)):
        gp = StreamingGPRegressor(kernel, tune="none", rank=40, random_state=0, **given)
        for i in range(0, 600, 100):
            gp.partial_fit(X[i : i + 100], outputs[i : i + 100])
            gp.predict(X[:50], return_std=True)
            # At most two folds or exchanges of a batch, and the noise that is estimated after it.
            assert len(factored) <= 3 * most
            factored.clear()
    apart = StreamingGPRegressor(kernel, tune="none", rank=40, random_state=0).fit(X, y)
    assert apart.learner_.state.noise.shape == (7,)


@pytest.mark.parametrize("method", ["pivoted", "nrmf", "rgp", "srmf"])
def test_outputs_with_noises_of_their_own_go_on_from_a_checkpoint_bit_for_bit(method, tmp_path):
    X, y = wave(330, q=3)
    y = y + np.array([0.0, 0.3, 2.0]) * np.random.default_rng(0).standard_normal(y.shape)
    gp = learned(X[:210], y[:210], batch=30, method=method)
    assert np.unique(gp.noise_).size > 1
    gp.save(tmp_path / "model")
    other = load(tmp_path / "model")
    for i in range(210, 330, 30):
        for each in (gp, other):
            each.partial_fit(X[i : i + 30], y[i : i + 30])
    for a, b in zip(gp.predict(X, return_interval=0.9), other.predict(X, return_interval=0.9), strict=True):
        assert (a == b).all()


def tuned_apart(seed, q=2):
    """A regressor of a given kernel that was tuned on rows of its own."""
    X, y = wave(500, q=q, seed=seed)
    y = y + np.array([0.02, 1.0]) * np.random.default_rng(seed).standard_normal(y.shape)
    kernel = kernels.Scaled(2.0, kernels.SquaredExponential([1.0, 1.0, 1.0])) + kernels.White(0.1)
    gp = StreamingGPRegressor(kernel, rank=60, random_state=0)
    for i in range(0, 500, 50):
        gp.partial_fit(X[i : i + 50], y[i : i + 50])
    return gp, X, y


def test_outputs_that_were_tuned_apart_from_one_kernel_merge():
    (one, _, _), (two, _, _) = tuned_apart(0), tuned_apart(1)
    assert (one.y_scale_ != two.y_scale_).all()
    new, truth = wave(300, q=2, seed=5)
    alone = [np.sqrt(((gp.predict(new) - truth) ** 2).mean(axis=0)) for gp in (one, two)]
    one.merge(two)
    both = np.sqrt(((one.predict(new) - truth) ** 2).mean(axis=0))
    assert (both <= 1.1 * np.minimum(*alone)).all()
    assert one.n_samples_seen_ == 1000


def test_rows_are_unlearned_although_units_have_changed_since():
    gp, X, y = tuned_apart(0)
    factors = np.array([0.3, 7.1])
    learner, one = gp.learner_, np.ones(2)
    rescaled = replace(
        learner,
        state=learner.state.rescaled(factors),
        targets=learner.targets.rescaled(factors),
        sample=learner.sample.rescaled(factors),
        scores=learner.scores.retuned(factors, one, one),
    )
    sizes = []
    for each in (learner, rescaled):
        gp._learner = each
        gp.unlearn(X[450:], y[450:])
        sizes.append((gp.learner_.sample.keys.size, (gp.learner_.state.window.weights == 0).sum()))
    assert sizes[0] == sizes[1]
    assert sizes[0][1] == 50
