"""The regressor under a likelihood: counts in their units, outliers doubted, and all that holds of every learner."""

import copy
import pickle

import numpy as np
import pytest

from streamgp import StreamingGPRegressor, kernels, load
from streamgp.errors import InputError, InputTypeError, ParameterError
from streamgp.likelihoods import LIKELIHOODS

RNG = np.random.default_rng(1)
X = RNG.uniform(-2, 2, (260, 2))
F = np.sin(2 * X[:, 0]) + 0.7 * X[:, 1]
TARGETS = {
    "poisson": RNG.poisson(np.exp(F + 1.0)).astype(float),
    "negative_binomial": RNG.poisson(np.exp(F + 1.0) * RNG.gamma(2.0, 0.5, 260)).astype(float),
    "student": 50 + 10 * (F + 0.2 * RNG.standard_t(2.5, 260)),
}
NAMES = list(LIKELIHOODS)


def model(name, **more):
    return StreamingGPRegressor(**({"likelihood": name, "rank": 40, "random_state": 0} | more))


def stream(gp, y, start=0, end=200, size=25):
    for i in range(start, end, size):
        gp.partial_fit(X[i : i + size], y[i : i + size])
    return gp


@pytest.fixture(scope="module")
def fitted():
    return {name: stream(model(name), y) for name, y in TARGETS.items()}


@pytest.mark.parametrize("name", NAMES)
def test_the_function_is_found_and_its_deviation_is_honest(fitted, name):
    f, std = fitted[name].predict(X[200:], return_std=True, latent=True)
    truth = 50 + 10 * F[200:] if name == "student" else F[200:] + 1.0
    assert np.corrcoef(f, truth)[0, 1] > 0.95
    # Student's sites are variational, which makes deviations too small by a sixth or so.
    assert np.sqrt(np.mean(((f - truth) / std) ** 2)) < 2.0


@pytest.mark.parametrize("name", NAMES)
def test_intervals_hold_what_they_promise_in_the_units_of_the_targets(fitted, name):
    mean, std, lower, upper = fitted[name].predict(X[200:], return_std=True, return_interval=0.9)
    y = TARGETS[name][200:]
    assert (
        (lower <= y) & (y <= upper)
    ).mean() > 0.8  # 60 rows, of which 54 are expected, or more of few counts
    assert ((lower <= mean) & (mean <= upper)).all()
    assert (std > 0).all()
    if name != "student":
        assert (lower == np.floor(lower)).all()
        assert (lower >= 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_draws_have_the_mean_that_is_predicted(fitted, name):
    drawn = fitted[name].sample_y(X[200:210], 4000, random_state=1)
    mean, std = fitted[name].predict(X[200:210], return_std=True)
    assert drawn.shape == (10, 4000)
    assert (np.abs(drawn.mean(axis=1) - mean) < 8 * std / 4000**0.5).all()
    assert name == "student" or (drawn == np.floor(drawn)).all()


@pytest.mark.parametrize("name", NAMES)
def test_what_was_saved_or_copied_goes_on_bit_for_bit(fitted, name, tmp_path):
    gp = copy.deepcopy(fitted[name])
    gp.save(tmp_path / "model.gp")
    others = [load(tmp_path / "model.gp"), pickle.loads(pickle.dumps(gp)), copy.deepcopy(gp)]
    for each in [gp, *others]:
        stream(each, TARGETS[name], 200, 230, 1)
        stream(each, TARGETS[name], 230, 260, 30)
    wanted = gp.predict(X, return_std=True)
    for each in others:
        assert all((a == b).all() for a, b in zip(each.predict(X, return_std=True), wanted, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_that_is_refused_changes_nothing(fitted, name):
    gp = copy.deepcopy(fitted[name])
    before, learner = gp.predict(X[:5]), gp.learner_
    with pytest.raises(InputError, match="NaN"):
        gp.partial_fit([[np.nan, 0.0]], [1.0])
    for bad in ([1.0, np.nan], [np.inf, 1.0], ["a", "b"], [1.0]):
        with pytest.raises(InputError):
            gp.partial_fit(X[:2], bad)
    if name != "student":
        with pytest.raises(InputError, match="no count"):
            gp.partial_fit(X[:2], [1.0, 0.5])
    assert gp.learner_ is learner
    assert (gp.predict(X[:5]) == before).all()


def test_a_first_batch_that_is_refused_leaves_no_trace():
    gp = model("poisson")
    with pytest.raises(InputError, match="no count"):
        gp.partial_fit(X[:5], [-1.0, 0, 0, 0, 0])
    assert set(vars(gp)) == set(gp.get_params())


def test_units_of_robust_targets_and_of_inputs_do_not_matter():
    y = TARGETS["student"]
    plain = stream(model("student"), y).predict(X[200:], return_std=True)
    other = model("student")
    scale = np.array([1e3, 1e-3])
    for i in range(0, 200, 25):
        other.partial_fit(X[i : i + 25] * scale, 1e4 * y[i : i + 25])
    found = other.predict(X[200:] * scale, return_std=True)
    # Searches end by rounding, which units change.
    assert np.allclose(found[0], 1e4 * plain[0], rtol=1e-3)
    assert np.allclose(found[1], 1e4 * plain[1], rtol=1e-2)


def test_outliers_move_the_robust_mean_little():
    y = 50 + 10 * (F + 0.1 * RNG.standard_normal(260))
    wrong = RNG.uniform(size=260) < 0.1
    y = np.where(wrong, y + 400.0, y)
    errors = {}
    for name, more in (("student", {}), ("gaussian", {"guard": None, "members": ("gp",)})):
        mean = stream(model(name, **more), y).predict(X[200:], latent=True)
        errors[name] = np.sqrt(np.mean((mean - 50 - 10 * F[200:]) ** 2))
    assert errors["student"] < 3.0  # of a function whose deviation is 9
    assert errors["student"] < 0.2 * errors["gaussian"]


def test_dispersion_and_freedom_are_learned(fitted):
    assert 1.0 < fitted["negative_binomial"].likelihood_.dispersion < 5.0  # 2
    assert 2.1 <= fitted["student"].likelihood_.freedom < 6.0  # 2.5
    deviation = fitted["student"].likelihood_.scale * fitted["student"].y_scale_[0]
    assert 1.2 < deviation < 3.0  # 2


@pytest.mark.parametrize("more", [{"memory_rows": 60}, {"forgetting": 0.7}])
def test_what_is_forgotten_is_no_longer_predicted(more):
    gp = model("poisson", tune="initial", initial_batches=2, **more)
    for i in range(0, 200, 25):
        gp.partial_fit(X[i : i + 25], RNG.poisson(5.0, 25))
    for i in range(0, 250, 25):
        gp.partial_fit(X[i : i + 25], RNG.poisson(40.0, 25))
    assert np.median(gp.predict(X)) > 36.0


def test_several_outputs_are_learned_each_with_its_level():
    y = np.stack([TARGETS["poisson"], RNG.poisson(200.0, 260)], axis=1)
    gp = model("poisson").fit(X[:200], y[:200])
    mean, lower, upper = gp.predict(X[200:], return_interval=0.9)
    assert mean.shape == lower.shape == (60, 2)
    assert abs(mean[:, 1].mean() - 200) < 10
    assert ((lower <= y[200:]) & (y[200:] <= upper)).mean() > 0.8
    assert len(gp.likelihood_) == 2
    assert gp.sample_y(X[:3], 7).shape == (3, 2, 7)


def test_single_rows_and_batches_find_the_same_function():
    y = TARGETS["poisson"]
    kernel = 1.0 * kernels.SquaredExponential([0.8, 2.0]) + kernels.Constant(0.5)
    given = {"kernel": kernel, "tune": "none"}
    one, many = stream(model("poisson", **given), y, size=1), stream(model("poisson", **given), y, size=100)
    a, std = many.predict(X, return_std=True, latent=True)
    b, other = one.predict(X, return_std=True, latent=True)
    # Sites that are found one after the other are not those found together: a tenth of a deviation on average.
    assert np.sqrt(np.mean(((a - b) / std) ** 2)) < 0.3
    assert np.allclose(std, other, rtol=0.15)


def laplace(likelihood, kernel, y, level):
    """Mean and deviation of f at X given all y at once; Rasmussen & Williams, algorithms 3.1 and 3.2."""
    K, a = kernel.block(X), np.zeros(len(y))
    for _ in range(30):
        f = K[: len(y), : len(y)] @ a
        slope, w = likelihood.slopes(y, f + level)
        inner = np.linalg.inv(K[: len(y), : len(y)] + np.diag(1 / w))
        a = inner @ (f + slope / w)
    cross = K[:, : len(y)]
    return level + cross @ a, np.sqrt(K.diagonal() - (cross @ inner * cross).sum(axis=1))


@pytest.mark.parametrize(("name", "apart"), [("poisson", 0.1), ("negative_binomial", 0.25)])
def test_one_pass_over_counts_is_near_the_batch_solution(name, apart):
    """Of large counts Laplace's approximation is near expectation propagation's, which is taken batch by batch.

    The negative binomial density is skewed at any count.
    """
    y = np.random.default_rng(0).poisson(np.exp(F + 5.0)).astype(float)
    kernel = 1.5 * kernels.SquaredExponential([0.8, 2.0])
    gp = stream(model(name, kernel=kernel, tune="none", rank=260), y)
    mean, std = gp.predict(X, return_std=True, latent=True)
    expected, deviation = laplace(gp.likelihood_, kernel, y[:200], gp.learner_.model.level[0])
    assert np.sqrt(np.mean(((mean - expected) / deviation) ** 2)) < apart
    assert np.median(std / deviation) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"noise": 0.1}, "the likelihood is the noise"),
        ({"objective": "loo"}, "objective='loo' has no meaning with likelihood='poisson'"),
        ({"guard": 10.0}, "no row is refused"),
        ({"members": ("gp", "ridge")}, "other members of the panel predict normal"),
        ({"neighbours": 8}, "neighbours=8"),
        ({"store": 10}, "store=10"),
        ({"mean_function": lambda X: X[:, 0]}, "what is left of a count is no count"),
        ({"mixed_precision": True}, "mixed_precision=True"),
        ({"tune": "hybrid"}, "use 'doubling'"),
        ({"method": "nrmf"}, "likelihood='poisson' is used by method='pivoted'"),
        ({"likelihood": "bernoulli"}, "for classes use StreamingGPClassifier"),
        ({"kernel": kernels.SquaredExponential(1.0) + kernels.White(0.1)}, "leave White out"),
    ],
)
def test_an_argument_without_a_meaning_is_refused_with_its_reason(more, words):
    gp = StreamingGPRegressor(**({"likelihood": "poisson"} | more))
    with pytest.raises(ParameterError, match=words):
        gp.fit(X, TARGETS["poisson"])


@pytest.mark.parametrize("more", [{"members": ("gp",)}, {"guard": None}, {"background": False}])
def test_what_a_likelihood_does_anyway_may_be_asked_for(more):
    model("poisson", **more).fit(X[:60], TARGETS["poisson"][:60])


def test_what_is_not_defined_is_refused_with_its_reason(fitted):
    gp, y = fitted["poisson"], TARGETS["poisson"]
    for call, words in (
        (lambda: gp.unlearn(X[:1], y[:1]), "unlearn is not defined with likelihood='poisson'"),
        (lambda: gp.merge(gp), "merge is not defined"),
        (gp.log_evidence, "no closed form"),
        (gp.sample_function, "sample_y"),
        (lambda: gp.predict_gradient(X[:2]), "predict_gradient is not defined"),
        (lambda: gp.interval_factor(0.9), "quantiles of the likelihood"),
        (lambda: gp.predict(X[:2], return_cov=True), "ask with latent=True"),
    ):
        with pytest.raises(ParameterError, match=words):
            call()
    assert not hasattr(gp, "noise_")
    assert not hasattr(StreamingGPRegressor(tune="none").fit(X, y), "likelihood_")
    assert gp.predict(X[:2], return_cov=True, latent=True)[1].shape == (2, 2)
    assert gp.members_ == {"gp": 1.0}
    assert gp.n_samples_seen_ == 200


def test_other_array_libraries_are_refused():
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(InputTypeError, match="learns NumPy arrays"):
        model("poisson").fit(strict.asarray(X), strict.asarray(TARGETS["poisson"]))


def test_tuning_is_told_and_rows_without_labels_are_counted():
    gp = model("poisson")
    y = np.stack([TARGETS["poisson"]] * 2, axis=1)
    gp.partial_fit(X[:60], y[:60])
    assert gp.tuning_.taken
    assert gp.tuning_seconds_ > 0
    gp.partial_fit(X[60:70], np.where(np.arange(10)[:, None] < 3, np.nan, y[60:70]))
    assert gp.n_unlabelled_ == 3
    assert gp.n_samples_seen_ == 67
    assert gp.tuning_ is None
    with pytest.raises(InputError, match="does not learn apart"):
        gp.partial_fit(X[:1], [[np.nan, 1.0]])
