"""Laws of hyperparameters that follow the stream."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import Counting, wave
from streamgp import StreamingGPRegressor, kernels, tuning
from streamgp.errors import InputError, KernelError, NumericalError, ParameterError
from streamgp.evaluation import prequential
from streamgp.gp.mixture import Mixture
from streamgp.methods import AffineModel, ExactModel, PivotedModel, RecursiveModel, SpectralModel
from streamgp.tuning.optimise import OBJECTIVES, exact_fit, is_due, tune_on_rows, tune_weights
from streamgp.tuning.reservoir import SAMPLE, Reservoir

PARTS = (kernels.SquaredExponential(0.5), kernels.Matern(2.0), kernels.Linear(1.3))
DEFINITE = [
    1.7 * kernels.SquaredExponential([0.5, 0.9, 2.0]),
    0.4 * kernels.Matern(1.1, nu=1.5) + kernels.Linear(2.0),
    kernels.WeightedSum(PARTS, (0.3, 1.2, 0.1)),
    kernels.BrownianPolynomial((0.0, 0.7, 0.2)),
]
INDEFINITE = [kernels.DistancePolynomial((0.0, 0.03, 0.01))]
AFFINE = [
    kernels.DistancePolynomial((0.0, 0.7, 0.4)),
    kernels.DistancePolynomial((0.0, 0.5, 0.0, 0.02)),
    kernels.DistancePolynomial((0.0, 0.5, 0.3, 0.1)),
    kernels.BrownianPolynomial((0.0, 0.7, 0.2)),
    kernels.WeightedSum(PARTS, (0.3, 1.2, 0.0)),
]


def slopes(value, theta, step=1e-5):
    """Central differences; their error is about step² and eps/step, both near 1e-10."""
    return np.array([(value(theta + h) - value(theta - h)) / (2 * step) for h in step * np.eye(theta.size)])


@pytest.mark.parametrize("kernel", DEFINITE + INDEFINITE, ids=str)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("q", [1, 2])
def test_the_gradient_on_rows_is_that_of_the_value(kernel, objective, q):
    X, y = wave(40, q=q)
    noise = 0.3
    if not kernel.positive_semidefinite:
        if objective == "loo":
            with pytest.raises(NumericalError):
                exact_fit(kernel, noise, X, y, objective)
            return
        noise = 9.0  # above the negative eigenvalues
    theta = np.append(kernel.theta, np.log(noise))

    def value(t):
        return exact_fit(kernel.with_theta(t[:-1]), np.exp(t[-1]), X, y, objective).value

    expected = slopes(value, theta)
    if objective == "training_error":
        expected[-1] = 0.0
    assert_allclose(exact_fit(kernel, noise, X, y, objective).gradient, expected, atol=1e-7)


@pytest.mark.parametrize("kernel", DEFINITE, ids=str)
def test_evidence_and_held_back_density_on_rows_are_what_the_words_say(kernel):
    X, y = wave(30, q=2)
    fit = exact_fit(kernel, 0.2, X, y, "evidence")
    C = kernel.block(X) + 0.2 * np.eye(30)
    dense = sum(
        -0.5 * (c @ np.linalg.solve(C, c) + np.linalg.slogdet(C)[1] + 30 * np.log(2 * np.pi)) for c in y.T
    )
    assert fit.value == pytest.approx(dense / 60, rel=1e-10)
    densities = []
    for i in range(30):
        rest = [j for j in range(30) if j != i]
        solved = np.linalg.solve(C[np.ix_(rest, rest)], C[rest, i])
        variance = C[i, i] - C[rest, i] @ solved
        error = y[i] - solved @ y[rest]
        densities.append(-0.5 * (error**2 / variance + np.log(2 * np.pi * variance)))
    assert fit.held_back == pytest.approx(np.mean(densities), rel=1e-9)
    assert exact_fit(kernel, 0.2, X, y, "loo").value == pytest.approx(np.mean(densities), rel=1e-9)


def mixture(indefinite, seed=0, n=60, q=2):
    rng = np.random.default_rng(seed)
    parts = np.repeat([0, 1, 2], [4, 5, 3])
    F, y, signs = rng.standard_normal((n, 12)), rng.standard_normal((n, q)), np.ones(12)
    amounts, noise = np.array([0.5, 1.3, 0.2]), 0.3
    if indefinite:
        signs[[2, 7]] = -1
        amounts, noise = 0.01 * amounts, 3.0
    given = Mixture(F.T @ F, F.T @ y, float((y**2).sum()), n, signs, parts)
    C = (F * (amounts[parts] * signs)) @ F.T + noise * np.eye(n)
    return given, amounts, noise, C, y


@pytest.mark.parametrize("indefinite", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_weights_are_judged_from_statistics_as_from_the_rows(indefinite, objective):
    given, amounts, noise, C, y = mixture(indefinite)
    n, q = y.shape
    inverse = np.linalg.inv(C)
    alpha = inverse @ y
    gcv = -0.5 * np.log(n * (alpha**2).sum() / q / np.trace(inverse) ** 2)
    expected = {
        "evidence": -0.5
        * ((y * alpha).sum() + q * (np.linalg.slogdet(C)[1] + n * np.log(2 * np.pi)))
        / (n * q),
        "loo": gcv,
        "training_error": -0.5 * ((noise * alpha) ** 2).sum() / (n * q),
    }
    worth = given.worth(amounts, noise, objective)
    assert worth.value == pytest.approx(expected[objective], rel=1e-10)
    assert worth.held_back == pytest.approx(gcv, rel=1e-10)
    theta = np.log(np.append(amounts, noise))
    gradient = slopes(lambda t: given.worth(np.exp(t[:-1]), np.exp(t[-1]), objective).value, theta)
    if objective == "training_error":
        gradient[-1] = 0.0
    assert_allclose(worth.gradient, gradient, atol=1e-8)


@pytest.mark.parametrize("kernel", AFFINE, ids=str)
@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("q", [1, 3])
def test_factors_of_the_parts_at_full_rank_give_the_exact_gp(kernel, sequential, q):
    X, y = wave(90, q=q)
    model = AffineModel.empty(kernel, 0.4, 90, 10, 0, X, y, sequential=sequential)
    exact = ExactModel.empty(kernel, 0.4, False, X, y)
    for rows in (slice(0, 30), slice(30, 31), slice(31, 90)):
        model, exact = model.observe(X[rows], y[rows]), exact.observe(X[rows], y[rows])
    new = wave(20, seed=1)[0]
    for a, b in zip((model, exact), (exact, model), strict=True):
        assert a.count == b.count
    ours, theirs = (m.predict(new, variance=True, covariance=False) for m in (model, exact))
    assert_allclose(ours.mean, theirs.mean, atol=1e-7)
    assert_allclose(ours.variance, theirs.variance, atol=1e-7)
    assert model.prior_trace == pytest.approx(exact.prior_trace, rel=1e-10)
    assert model.trace_error == pytest.approx(0.0, abs=1e-6 * max(abs(np.trace(kernel.block(X))), 1.0))


@pytest.mark.parametrize("sequential", [True, False])
def test_new_weights_equal_having_had_them_from_the_start(sequential):
    X, y = wave(300)
    y = y[:, None]
    first, second = (kernels.DistancePolynomial(w) for w in ((0.0, 1.0, 1.0, 0.5), (0.0, 0.2, 0.01, 2.0)))
    models = []
    for kernel in (first, second):
        model = AffineModel.empty(kernel, 0.3, 25, 5, 0, X, y, sequential=sequential)
        for i in range(0, 300, 60):
            model = model.observe(X[i : i + 60], y[i : i + 60])
        models.append(model)
    turned = models[0].retuned(second, 0.7)
    ours, theirs = (
        m.predict(X[:40], variance=True, covariance=False) for m in (turned, models[1].retuned(second, 0.7))
    )
    assert_allclose(ours.mean, theirs.mean, atol=1e-10)
    assert_allclose(ours.variance, theirs.variance, atol=1e-10)


def test_an_evaluation_of_weights_takes_no_kernel_entry_and_no_row():
    X, y = wave(200)
    parts = tuple(Counting(k) for k in PARTS)
    gp = StreamingGPRegressor(
        kernels.WeightedSum(parts), method="srmf", rank=20, random_state=0, tune="initial", initial_batches=1
    ).partial_fit(X, y)
    model = gp._stream.model
    assert isinstance(model, AffineModel)
    for part in parts:
        part.taken()
    tuned = tune_weights(
        model.kernel, 0.5, model.kernel.theta, model.mixture, "evidence", (1e-3, 1e3), tune_noise=True
    )
    assert tuned.evaluations > 2
    assert [part.taken() for part in parts] == [0, 0, 0]


@pytest.mark.parametrize("method", ["srmf", "brmf"])
def test_hybrid_goes_over_to_the_kernels_own_factor(method):
    X, y = wave(500)
    gp = StreamingGPRegressor(
        kernels.BrownianPolynomial((0.1, 1.0, 1.0)), method=method, rank=40, tune="hybrid", initial_batches=3
    )
    kinds = []
    for i in range(0, 500, 100):
        gp.partial_fit(X[i : i + 100], y[i : i + 100])
        kinds.append(type(gp._stream.model))
    assert kinds == [AffineModel, AffineModel, SpectralModel, SpectralModel, SpectralModel]
    assert gp.kernel_.weights != (0.0, 1.0, 1.0)
    assert gp._stream.model.count == 500


# The sample


@pytest.mark.parametrize("batch", [1, 7, 100, 3000])
def test_the_sample_does_not_depend_on_how_rows_were_cut(batch):
    X, y = np.arange(3000.0)[:, None], np.arange(3000.0)[:, None]
    sample = Reservoir.empty(1, 1, 5)
    for i in range(0, 3000, batch):
        sample = sample.add(X[i : i + batch], y[i : i + batch])
    whole = Reservoir.empty(1, 1, 5).add(X, y)
    assert (sample.X == whole.X).all()
    assert sample.X.shape == (SAMPLE, 1)
    assert sample.seen == 3000
    # Uniform: the mean of 500 of 3,000 rows has a standard deviation of about 35.
    assert abs(sample.X.mean() - 1500) < 150


def test_what_is_forgotten_fades_from_the_sample_too():
    X, y = wave(3000)
    gp = StreamingGPRegressor(forgetting=0.5, random_state=0, rank=20)
    for i in range(0, 3000, 100):
        gp.partial_fit(X[i : i + 100], y[i : i + 100])
    sample = gp._stream.sample.X
    newest = {tuple(row) for row in X[2000:]}
    assert np.mean([tuple(row) in newest for row in sample]) > 0.95


# Carrying the past over


@pytest.mark.parametrize("model", ["pivoted", "rgp"])
def test_a_change_of_amplitude_is_carried_over_exactly(model):
    X, y = wave(900)
    kernel, y = kernels.Scaled(1.5, kernels.SquaredExponential(0.7)), y[:, None]

    def learn(kernel):
        if model == "rgp":
            out = RecursiveModel.empty(kernel, 0.05, 30, X[:60], y, None)
            return out.observe(X[:60], y[:60])
        out = PivotedModel.empty(kernel, 0.05, 40, 500, None, None, 0, X, y)
        for i in range(0, 900, 100):
            out = out.observe(X[i : i + 100], y[i : i + 100])
        return out

    before = learn(kernel)
    turned = before.retuned(kernels.Scaled(3.0, kernel.kernel), 0.1)
    # Twice the amplitude and twice the noise: the same mean, twice the variance.
    ours, theirs = (m.predict(X[:50], variance=True, covariance=False) for m in (turned, before))
    assert_allclose(ours.mean, theirs.mean, atol=1e-9)
    assert_allclose(ours.variance, 2 * theirs.variance, atol=1e-8)


def test_while_the_window_holds_every_row_a_change_of_kernel_is_exact():
    X, y = wave(400)
    y = y[:, None]
    old, new = (2.0 * kernels.SquaredExponential(s) for s in ([0.5, 0.7, 0.9], [0.6, 0.5, 1.4]))
    model = PivotedModel.empty(old, 0.05, 60, 500, None, None, 0, X, y)
    for i in range(0, 400, 100):
        model = model.observe(X[i : i + 100], y[i : i + 100])
    turned = model.retuned(new, 0.02)
    F = turned.features.transform(X)
    assert_allclose(turned.posterior.statistics.gram, F.T @ F, atol=1e-8)
    assert_allclose(turned.posterior.statistics.moment, F.T @ y, atol=1e-8)
    assert turned.trace_error == pytest.approx(float(new.diag(X).sum()) - (F**2).sum(), abs=1e-6)


def test_pivots_that_a_smoother_kernel_makes_superfluous_are_dropped():
    X, y = wave(600)
    y = y[:, None]
    model = PivotedModel.empty(kernels.SquaredExponential(0.2), 0.05, 150, 500, None, None, 0, X, y)
    model = model.observe(X[:300], y[:300]).observe(X[300:], y[300:])
    assert model.rank == 150
    turned = model.retuned(kernels.SquaredExponential(5.0), 0.05)
    assert turned.rank < 100
    assert np.isfinite(turned.predict(X, variance=True, covariance=False).variance).all()


# Safe


def test_a_tuning_never_lowers_the_objective_or_the_held_back_density():
    X, y = wave(200)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        kernel = kernels.Scaled(1.0, kernels.SquaredExponential(np.exp(rng.standard_normal(3))))
        for objective in OBJECTIVES:
            tuned = tune_on_rows(
                kernel, 0.3, kernel.theta, X, y[:, None], objective, (1e-2, 1e2), tune_noise=True
            )
            before, after = (
                exact_fit(k, s, X, y[:, None], objective)
                for k, s in ((kernel, 0.3), (tuned.kernel, tuned.noise))
            )
            assert after.value >= before.value - 1e-12
            assert after.held_back >= before.held_back - 1e-12


def test_a_failed_optimisation_leaves_the_model_as_it_was_and_says_so(monkeypatch):
    X, y = wave(300)
    gp = StreamingGPRegressor(random_state=0, rank=30).partial_fit(X[:100], y[:100])
    before = gp.kernel_

    def fail(*_):
        raise NumericalError("no")

    monkeypatch.setattr(tuning, "exact_fit", fail)
    gp.partial_fit(X[100:], y[100:])
    assert gp.tuning_.verdict.startswith("failed")
    assert gp.kernel_ == before
    assert gp.n_samples_seen_ == 300


def test_a_kernel_that_the_model_cannot_take_is_not_taken(monkeypatch):
    X, y = wave(300)
    gp = StreamingGPRegressor(random_state=0, rank=30).partial_fit(X[:100], y[:100])
    before = gp.kernel_

    def fail(*_):
        raise NumericalError("not positive definite")

    monkeypatch.setattr(PivotedModel, "retuned", fail)
    gp.partial_fit(X[100:], y[100:])
    assert gp.tuning_.verdict == "failed: not positive definite"
    assert gp.kernel_ == before


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
    gp = StreamingGPRegressor(method=method, random_state=0, rank=40, tune=tune)
    gp.partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    assert gp.tuning_.verdict.startswith("kept")
    mean, lower, upper = gp.predict(X, return_interval=0.9)
    assert np.isfinite([mean, lower, upper]).all()


@pytest.mark.parametrize("method", ["pivoted", "srmf", "rgp"])
@pytest.mark.parametrize("tune", ["doubling", "continuous"])
def test_the_same_stream_and_seed_give_the_same_hyperparameters(method, tune):
    X, y = wave(400)
    gps = [StreamingGPRegressor(method=method, rank=40, random_state=3, tune=tune) for _ in range(2)]
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
    moved = gp.kernel_.theta - gp._stream.centre
    assert (moved >= np.log(0.9) - 1e-12).all()
    assert (moved <= np.log(1.05) + 1e-12).all()
    assert np.abs(moved).max() > 1e-3


def test_a_feature_that_does_not_matter_gets_a_long_length_scale():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3)) * [1.0, 100.0, 0.01]
    y = np.sin(2 * X[:, 0]) + 0.05 * rng.standard_normal(600)
    gp = StreamingGPRegressor(random_state=0).fit(X, y)
    lengths = np.array(gp.kernel_.kernel.length_scale) / [1.0, 100.0, 0.01]
    assert lengths[1] > 2 * lengths[0]
    assert lengths[2] > 2 * lengths[0]
    assert gp.noise_ * gp.y_scale_[0] ** 2 == pytest.approx(0.05**2, rel=0.5)


def test_noise_that_is_given_is_held():
    X, y = wave(300)
    for method in ("pivoted", "srmf"):
        gp = StreamingGPRegressor(noise=0.123, random_state=0, rank=40, method=method).fit(X, y)
        assert gp.tuning_.taken
        assert gp.noise_ == pytest.approx(0.123)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("none", []),
        ("continuous", [50, 100, 150, 200, 250, 300, 350, 400]),
        ("initial", [50, 100, 150]),
        ("hybrid", [50, 100, 150]),
        ("doubling", [50, 100, 200, 400]),
    ],
)
def test_hyperparameters_are_tuned_when_the_mode_says(mode, expected):
    X, y = wave(400)
    gp = StreamingGPRegressor(random_state=0, rank=20, tune=mode, initial_batches=3)
    records = list(prequential(gp, X, y, 50))
    assert [r.rows_seen for r in records if r.tuning] == expected
    assert all((r.tuning_seconds > 0) == (r.tuning is not None) for r in records)
    assert gp.tuning_seconds_ == pytest.approx(sum(r.tuning_seconds for r in records))


def test_with_forgetting_hyperparameters_are_tuned_when_half_of_what_counts_is_new():
    """Else a model that has seen much would never learn that other features matter now."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (6000, 2))
    y = np.where(np.arange(6000) < 3000, np.sin(3 * X[:, 0]), np.sin(3 * X[:, 1]))
    y += 0.05 * rng.standard_normal(6000)
    errors, tuned = {}, {}
    for forgetting in (1.0, 0.96):
        gp = StreamingGPRegressor(rank=60, forgetting=forgetting, random_state=0)
        records = list(prequential(gp, X, y, 20))
        tuned[forgetting] = [r.rows_seen for r in records if r.tuning]
        errors[forgetting] = np.sqrt(np.mean([r.rmse**2 for r in records[-50:]]))
    assert tuned[1.0] == [60, 120, 240, 480, 960, 1920, 3840]
    late = np.diff([n for n in tuned[0.96] if n > 1000])
    # What counts is 500 rows; half of it is new after 17 batches of 20, but a new sample takes SAMPLE rows.
    assert (late == SAMPLE).all()
    assert errors[0.96] < 0.1 < 0.5 < errors[1.0]


@pytest.mark.parametrize("later", [1.0, 0.999, 0.5])
def test_a_sample_knows_all_that_was_forgotten_whatever_is_forgotten_now(later):
    sample = Reservoir.empty(1, 1, 0)
    for i in range(200):
        sample = sample.faded(0.9).add(np.full((50, 1), i), np.zeros((50, 1)))
    for i in range(200, 400):
        sample = sample.faded(later).add(np.full((50, 1), i), np.zeros((50, 1)))
    assert sample.X.min() >= 200 - 60  # rows of 60 batches before count for e⁻⁶ and less
    assert (sample.X >= 200).mean() > 0.9


def test_a_merged_sample_weighs_streams_by_what_they_count_for_now():
    rng = np.random.default_rng(0)
    forgetful, steady = Reservoir.empty(1, 1, 1), Reservoir.empty(1, 1, 2)
    for _ in range(100):
        near = 1e-6 * rng.standard_normal((2, 50, 1))  # rows of equal inputs would be bounded
        forgetful = forgetful.faded(0.5).add(near[0], rng.standard_normal((50, 1)))  # counts 100 rows
        steady = steady.add(1.0 + near[1], rng.standard_normal((50, 1)))  # counts 5,000
    for both in (forgetful.merge(steady), steady.merge(forgetful)):
        assert 0.94 < both.X.mean() <= 1.00001


def test_a_warm_model_can_be_frozen_and_thawed():
    X, y = wave(1600)
    gp = StreamingGPRegressor(rank=20, random_state=0)
    list(prequential(gp, X[:300], y[:300], 50))
    found = gp.kernel_, gp.tuning_seconds_
    gp.set_params(tune="none")
    list(prequential(gp, X[300:1000], y[300:1000], 50))
    assert (gp.kernel_, gp.tuning_seconds_) == found
    gp.set_params(tune="doubling").partial_fit(X[1000:], y[1000:])
    assert gp.tuning_seconds_ > found[1]


def test_a_stream_that_was_frozen_from_the_start_is_tuned_when_it_has_a_sample():
    X, y = wave(400)
    gp = StreamingGPRegressor(rank=20, random_state=0, tune="none")
    list(prequential(gp, X[:200], y[:200], 20))
    gp.set_params(tune="continuous", bounds=(0.5, 2.0))
    tuned = [r.rows_seen for r in prequential(gp, X[200:], y[200:], 20) if r.tuning]
    assert tuned[0] == 280  # sixty rows of the sample came before this batch, forty before the one before it
    lengths = gp.kernel_.theta
    assert np.isfinite(lengths).all()


def test_too_few_rows_are_not_tuned_on():
    assert not is_due("continuous", 49, 1, 0, 10, 0.0)
    assert is_due("continuous", 50, 1, 0, 10, 0.0)


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (ParameterError, {"tune": "always"}),
        (ParameterError, {"objective": "likelihood"}),
        (ParameterError, {"bounds": (10.0, 0.1)}),
        (ParameterError, {"bounds": (1.5, 3.0)}),
        (ParameterError, {"bounds": (0.0, 3.0)}),
        (ParameterError, {"bounds": 3.0}),
        (ParameterError, {"initial_batches": 0}),
        (KernelError, {"kernel": "polynomial"}),
        (ParameterError, {"kernel": kernels.DistancePolynomial(), "method": "srmf", "variant": "literal"}),
    ],
    ids=str,
)
def test_bad_arguments_are_named(error, arguments):
    X, y = wave(60)
    with pytest.raises(error):
        StreamingGPRegressor(**arguments).fit(X, y)


@pytest.mark.parametrize(
    "weights", [(-1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (1.0, 1.0), "abc", (np.nan, 1.0, 1.0)]
)
def test_weights_that_are_not_weights_are_refused(weights):
    with pytest.raises(KernelError):
        kernels.WeightedSum(PARTS, weights)


@pytest.mark.parametrize(
    "arguments", [{"n": 0}, {"low": 0.0}, {"low": 5.0, "high": 1.0}, {"length_scale": -1.0}]
)
def test_a_dictionary_of_nonsense_is_refused(arguments):
    with pytest.raises(KernelError):
        kernels.dictionary(**arguments)


# What a second reader found


def plane(n, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + noise * rng.standard_normal(n)


def test_one_large_first_batch_is_as_good_as_many_small_ones():
    X, y = plane(2000)
    new, truth = plane(300, seed=9, noise=0.0)
    whole = StreamingGPRegressor(random_state=0).fit(X, y)
    parts = StreamingGPRegressor(random_state=0)
    for i in range(0, 2000, 100):
        parts.partial_fit(X[i : i + 100], y[i : i + 100])
    errors = [np.sqrt(np.mean((gp.predict(new) - truth) ** 2)) for gp in (whole, parts)]
    assert max(errors) < 0.03


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


def test_what_was_unlearned_is_not_tuned_on():
    X, y = plane(1300)
    gp = StreamingGPRegressor(random_state=0, memory="rows")
    for i in range(0, 400, 100):
        gp.partial_fit(X[i : i + 100], y[i : i + 100])
    gp.partial_fit(X[400:500], 1000 * y[400:500]).unlearn(X[400:500], 1000 * y[400:500])
    for i in range(500, 1300, 100):
        gp.partial_fit(X[i : i + 100], y[i : i + 100])
    assert gp.noise_ * gp.y_scale_[0] ** 2 < 0.03
    new, truth = plane(300, seed=9, noise=0.0)
    assert np.sqrt(np.mean((gp.predict(new) - truth) ** 2)) < 0.06


def test_rgp_refuses_to_unlearn_under_another_kernel():
    X, y = plane(200)
    gp = StreamingGPRegressor(method="rgp", rank=60, random_state=0).partial_fit(X[:100], y[:100])
    gp.partial_fit(X[100:], y[100:])
    assert gp.tuning_.taken
    with pytest.raises(InputError, match="after a tuning"):
        gp.unlearn(X[100:], y[100:])


@pytest.mark.parametrize("size", [1e100, 1e80, 1e-100])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_targets_of_any_size_are_learned_whatever_tuning_can_make_of_them(size, objective):
    X, y = plane(200)
    for kernel, method in (
        (kernels.WeightedSum(PARTS), "srmf"),
        (kernels.SquaredExponential(1.0), "pivoted"),
    ):
        gp = StreamingGPRegressor(kernel, method=method, rank=30, objective=objective, random_state=0)
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


def test_an_indefinite_matrix_has_no_evidence_however_many_eigenvalues_are_negative():
    X, y = plane(200)
    kernel, noise = kernels.DistancePolynomial((0.0, 1.0, 1.0)), 10.66735
    negative = (np.linalg.eigvalsh(kernel.block(X) + noise * np.eye(200)) < 0).sum()
    assert negative >= 2
    with pytest.raises(NumericalError):
        exact_fit(kernel, noise, X, y[:, None], "evidence")
    gp = StreamingGPRegressor(kernel, noise=noise, method="nrmf", tune="none").fit(X, y)
    assert gp.log_evidence() == -np.inf


@pytest.mark.parametrize("batch", [1, 4])
def test_initial_tuning_waits_for_rows_to_tune_on(batch):
    X, y = plane(120)
    gp = StreamingGPRegressor(tune="initial", initial_batches=3, random_state=0)
    for i in range(0, 120, batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    assert gp._stream.tunings == 3


@pytest.mark.parametrize("kernel", AFFINE[:1] + AFFINE[3:], ids=str)
def test_weights_are_not_tuned_where_there_is_nothing_to_learn_from(kernel):
    X, y = plane(200)
    for rows, targets in ((X, np.full(200, 3.0)), (np.ones((200, 3)), y)):
        gp = StreamingGPRegressor(kernel, method="srmf", rank=20, objective="training_error", random_state=0)
        gp.partial_fit(rows[:100], targets[:100]).partial_fit(rows[100:], targets[100:])
        assert gp.tuning_.verdict.startswith("kept")


def test_kernels_that_were_tuned_apart_merge():
    X, y = plane(2000)
    new, truth = plane(300, seed=9, noise=0.0)
    parts = []
    for start in (0, 1000):
        gp = StreamingGPRegressor(kernels.SquaredExponential(1.0), noise=0.01, random_state=0, rank=150)
        for i in range(start, start + 1000, 100):
            gp.partial_fit(X[i : i + 100], y[i : i + 100])
        parts.append(gp)
    assert parts[0].kernel_ != parts[1].kernel_
    alone = np.sqrt(np.mean((parts[0].predict(new) - truth) ** 2))
    parts[0].merge(parts[1])
    assert np.sqrt(np.mean((parts[0].predict(new) - truth) ** 2)) < alone
    assert parts[0]._stream.sample.seen == parts[0].n_samples_seen_ == 2000


def test_the_time_of_carrying_the_past_over_is_tuning_time(monkeypatch):
    X, y = plane(200)
    gp = StreamingGPRegressor(random_state=0, rank=30).partial_fit(X[:100], y[:100])
    original = PivotedModel.retuned

    def slow(self, kernel, noise):
        time.sleep(0.2)
        return original(self, kernel, noise)

    monkeypatch.setattr(PivotedModel, "retuned", slow)
    (record,) = prequential(gp, X[100:], y[100:])
    assert record.tuning == "taken"
    assert record.tuning_seconds >= 0.2
