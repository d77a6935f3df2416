"""The estimator: scikit-learn's contract, refusals, extremes, units, array libraries."""

import pickle
import threading
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.checks import METHODS
from streamgp.errors import InputError, KernelError, NegativeVarianceWarning, NumericalError, ParameterError
from streamgp.learner import WARM_UP

KERNEL = 1.5 * kernels.SquaredExponential(1.0)
every_method = pytest.mark.parametrize("method", METHODS)


@parametrize_with_checks(
    [StreamingGPRegressor(method=m, random_state=0) for m in METHODS]
    + [
        StreamingGPRegressor(method="srmf", rank=7, oversampling=0, random_state=0),
        StreamingGPRegressor(rank=15, memory="rows", forgetting=0.95, random_state=0),
        StreamingGPRegressor(
            2.0 * kernels.Matern(3.0) + kernels.White(0.1), method="rgp", rank=30, random_state=0
        ),
        StreamingGPRegressor(method="nrmf", refactor=True, noise=0.05),
        StreamingGPRegressor(method="brmf", variant="literal", random_state=0),
    ]
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def snapshot(gp):
    return pickle.dumps(dict(sorted(gp.__dict__.items())))


def fitted(method="srmf", n=120, **arguments):
    X, y = wave(n)
    return StreamingGPRegressor(method=method, rank=40, random_state=0, **arguments).partial_fit(X, y)


X0, Y0 = wave(20, seed=5)
BAD_BATCHES = {
    "NaN in X": (np.where(np.eye(20, 3) > 0, np.nan, X0), Y0, "NaN"),
    "infinity in X": (np.where(np.eye(20, 3) > 0, np.inf, X0), Y0, "infinity"),
    "NaN in y": (X0, np.where(np.arange(20) == 3, np.nan, Y0), "NaN"),
    "infinity in y": (X0, np.where(np.arange(20) == 3, -np.inf, Y0), "infinity"),
    "a feature too few": (X0[:, :2], Y0, "2 features"),
    "a feature too many": (np.c_[X0, X0], Y0, "6 features"),
    "one dimension": (X0[:, 0], Y0, "1D array"),
    "three dimensions": (X0[:, :, None], Y0, "dim 3"),
    "no rows": (X0[:0], Y0[:0], "0 sample"),
    "y too short": (X0, Y0[:19], "inconsistent numbers of samples"),
    "another number of outputs": (X0, np.c_[Y0, Y0], r"\(n, 2\), earlier batches had \(n,\)"),
    "text": (X0.astype(str).astype(object) + "a", Y0, "could not convert"),
    "y beyond all bounds": (X0, Y0 * 1e200, "overflow"),
}


@every_method
@pytest.mark.parametrize(("X", "y", "words"), BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
def test_a_bad_batch_is_refused_and_the_model_stays_bit_for_bit(method, X, y, words):
    gp = fitted(method)
    before = snapshot(gp)
    kept_X, kept_y = X.copy(), y.copy()
    with pytest.raises(InputError, match=words) as caught:
        gp.partial_fit(X, y)
    assert len(str(caught.value)) > 30
    assert snapshot(gp) == before
    assert_array_equal(X, kept_X)
    assert_array_equal(y, kept_y)


@every_method
def test_a_bad_first_batch_leaves_no_trace(method):
    gp = StreamingGPRegressor(method=method)
    with pytest.raises(InputError):
        gp.partial_fit(X0, np.full(20, np.nan))
    with pytest.raises(NotFittedError):
        gp.predict(X0)
    assert not hasattr(gp, "n_features_in_")
    gp.partial_fit(X0[:, :2], Y0)
    assert gp.n_features_in_ == 2


@every_method
def test_a_failing_kernel_leaves_the_model_bit_for_bit(method):
    class Broken(kernels.SquaredExponential):
        broken = False

        def block(self, X, Y=None):
            if Broken.broken:
                raise NumericalError("broken")
            return super().block(X, Y)

    gp = fitted(method, kernel=Broken(1.0), noise=0.1)
    before = gp.__dict__.copy()
    Broken.broken = True
    with pytest.raises(NumericalError):
        gp.partial_fit(X0, Y0)
    assert gp.__dict__ == before
    assert all(gp.__dict__[name] is value for name, value in before.items())


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"method": "magic"}, ParameterError, "method='magic' must be one of pivoted"),
        ({"rank": 0}, ParameterError, "rank=0 must be a whole number, 1 or more"),
        ({"rank": 2.5}, ParameterError, "rank=2.5"),
        ({"oversampling": -1}, ParameterError, "oversampling=-1"),
        ({"noise": 0.0}, ParameterError, "noise=0.0 must be a variance above 0"),
        ({"noise": -1}, ParameterError, "noise=-1"),
        ({"noise": np.nan}, ParameterError, "noise=nan"),
        ({"noise": "much"}, ParameterError, "noise='much'"),
        ({"method": "srmf", "forgetting": 0.9}, ParameterError, "works with 'pivoted' and 'rgp'"),
        ({"memory": "all"}, ParameterError, "memory='all' must be 'bounded' or 'rows'"),
        ({"method": "nrmf", "memory": "rows"}, ParameterError, "memory works with method='pivoted'"),
        ({"method": "rgp", "forgetting": 1.1}, ParameterError, "at most 1"),
        ({"variant": "printed"}, ParameterError, "'projected' or 'literal'"),
        ({"kernel": "rbf"}, KernelError, "kernel='rbf' must be a kernel"),
        ({"kernel": kernels.Linear}, KernelError, "give an object"),
        ({"kernel": kernels.White(1.0)}, KernelError, "white noise only"),
        ({"kernel": kernels.SquaredExponential([1.0, 2.0])}, KernelError, "2 values of length_scale"),
        ({"kernel": kernels.DistancePolynomial(), "method": "rgp"}, KernelError, "positive semi-definite"),
        (
            {"method": "rgp", "basis": np.zeros((4, 2))},
            ParameterError,
            r"\(4, 2\) must be finite, with 3 columns",
        ),
        ({"method": "rgp", "basis": "points"}, ParameterError, "basis"),
    ],
)
def test_an_argument_out_of_range_is_named_with_the_rule(arguments, kind, words):
    gp = StreamingGPRegressor(**arguments)
    for learn in (gp.fit, gp.partial_fit):
        with pytest.raises(kind, match=words):
            learn(X0, Y0)
    assert set(vars(gp)) == set(gp.get_params())  # no trace of the attempt


def test_predict_asks_for_one_thing_at_a_time_and_a_sensible_interval():
    gp = fitted()
    with pytest.raises(ParameterError, match="one of"):
        gp.predict(X0, return_std=True, return_cov=True)
    with pytest.raises(ParameterError, match="return_interval=90 must lie between 0 and 1"):
        gp.predict(X0, return_interval=90)


@every_method
@pytest.mark.parametrize("power", [-150, -20, 20, 150])
@pytest.mark.parametrize("outputs", [None, 2])
# An optimiser that has not converged carries rounding on: answers then agree to what it leaves undecided.
@pytest.mark.parametrize(("tune", "tolerance"), [("none", 1e-8), ("doubling", 5e-3)])
def test_units_do_not_matter(method, power, outputs, tune, tolerance):
    X, y = wave(130, q=outputs)
    units = np.array([10.0**power, 1.0, 3.7])
    plain = StreamingGPRegressor(method=method, rank=60, random_state=0, tune=tune)
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


def odd_batches():
    rng = np.random.default_rng(0)
    yield (
        "constant columns",
        np.c_[np.full(60, 5.0), np.zeros(60), rng.standard_normal(60)],
        rng.standard_normal(60),
    )
    yield "all rows equal", np.full((60, 2), 3.3), rng.standard_normal(60)
    yield "duplicated rows", np.repeat(rng.standard_normal((6, 2)), 10, axis=0), rng.standard_normal(60)
    yield "one row", np.array([[1.0, 2.0]]), np.array([3.0])
    yield "one row of zeros", np.zeros((1, 2)), np.zeros(1)
    yield "one feature", rng.standard_normal((60, 1)), rng.standard_normal(60)
    yield "y constant", rng.standard_normal((60, 2)), np.full(60, 7.0)
    yield "y zero", rng.standard_normal((60, 2)), np.zeros(60)
    yield "more features than rows", rng.standard_normal((5, 40)), rng.standard_normal(5)
    for size in (1e150, 1e-150):
        yield f"X {size:g}", rng.standard_normal((60, 2)) * size, rng.standard_normal(60)
        yield f"y {size:g}", rng.standard_normal((60, 2)), rng.standard_normal(60) * size
    yield "columns of mixed size", rng.standard_normal((60, 2)) * [1e150, 1e-150], rng.standard_normal(60)
    yield "a far offset", rng.standard_normal((60, 2)) + 1e9, rng.standard_normal(60) + 1e9


@every_method
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("X", "y"), [b[1:] for b in odd_batches()], ids=[b[0] for b in odd_batches()])
def test_odd_data_gives_finite_answers(method, dtype, X, y):
    if dtype == np.float32:
        X = np.clip(X, -1e18, 1e18)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp = StreamingGPRegressor(method=method, rank=20, random_state=0)
        for _ in range(3):
            gp.partial_fit(X.astype(dtype), y)
            mean, std = gp.predict(np.concatenate([X, -X]).astype(dtype), return_std=True)
            assert np.isfinite(mean).all()
            assert np.isfinite(std).all()
            assert (std > 0).all()
    assert np.isfinite(gp.trace_error_)


@every_method
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_small_stream_gives_finite_answers(method, data):
    d, n = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 12))
    number = st.floats(-1e6, 1e6, allow_nan=False, width=32)
    X = np.array(data.draw(st.lists(st.lists(number, min_size=d, max_size=d), min_size=n, max_size=n)))
    y = np.array(data.draw(st.lists(number, min_size=n, max_size=n)))
    gp = StreamingGPRegressor(method=method, rank=data.draw(st.integers(1, 15)), random_state=0)
    for i in range(0, n, 5):
        gp.partial_fit(X[i : i + 5], y[i : i + 5])
    mean, std = gp.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


@every_method
def test_the_first_rows_count_the_same_one_by_one_as_in_one_batch(method):
    X, y = wave(WARM_UP + 10)
    one = StreamingGPRegressor(method=method, rank=30, random_state=0).partial_fit(X[:WARM_UP], y[:WARM_UP])
    many = StreamingGPRegressor(method=method, rank=30, random_state=0)
    for i in range(WARM_UP):
        many.partial_fit(X[i : i + 1], y[i : i + 1])
        assert np.isfinite(many.predict(X)).all()
    assert many.kernel_ == one.kernel_
    assert_allclose(many.predict(X), one.predict(X), atol=1e-12)
    assert many._stream.waiting is None


@every_method
def test_the_same_seed_gives_the_same_numbers_and_fit_forgets(method):
    X, y = wave(130)
    gps = [StreamingGPRegressor(method=method, rank=20, random_state=3) for _ in range(2)]
    gps[1].partial_fit(X[:, :2], -y)
    for gp in gps:
        gp.fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    assert gps[0].n_samples_seen_ == 130
    for a, b in zip(*(gp.predict(X, return_std=True) for gp in gps), strict=True):
        assert_array_equal(a, b)


@every_method
def test_outputs_learned_together_equal_outputs_learned_alone(method):
    X, y = wave(120, q=3)
    arguments = {
        "kernel": 1.3 * kernels.Matern(1.1),
        "noise": 0.05,
        "method": method,
        "rank": 40,
        "random_state": 0,
        "tune": "none",
    }
    together = StreamingGPRegressor(**arguments).fit(X, y)
    mean, std = together.predict(X0, return_std=True)
    assert mean.shape == std.shape == (20, 3)
    assert together.predict(X0, return_cov=True)[1].shape == (20, 20, 3)
    assert together.sample_y(X0, 5).shape == (20, 3, 5)
    alone = [StreamingGPRegressor(**arguments).fit(X, y[:, j]) for j in range(3)]
    for j, gp in enumerate(alone):
        one_mean, one_std = gp.predict(X0, return_std=True)
        assert_allclose(mean[:, j], one_mean, atol=1e-11)
        assert_allclose(std[:, j], one_std, atol=1e-11)
    assert together.log_evidence() == pytest.approx(sum(gp.log_evidence() for gp in alone), rel=1e-10)


def test_std_interval_and_samples_tell_the_same_story():
    gp = fitted(n=60)
    mean, std = gp.predict(X0, return_std=True)
    _, lower, upper = gp.predict(X0, return_interval=0.9, calibrated=False)
    assert_allclose(upper - mean, 1.6448536 * std, rtol=1e-6)
    assert_allclose(mean - lower, 1.6448536 * std, rtol=1e-6)
    _, cov = gp.predict(X0, return_cov=True)
    assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-9)
    latent = gp.predict(X0, return_std=True, latent=True)[1]
    assert_allclose(std**2 - latent**2, gp.noise_ * gp.y_scale_[0] ** 2, rtol=1e-9)
    samples = gp.sample_y(X0, 20000, random_state=1)
    # The standard error of a mean of 20,000 is std/141; 5 of these leave a chance of 1e-5 over 20 rows.
    assert_allclose(samples.mean(axis=1), mean, atol=5 * std.max() / 141)
    assert_allclose(np.cov(samples), cov, atol=0.05 * cov.max())


def test_white_noise_in_the_kernel_is_the_noise():
    gp = fitted(kernel=RBF(1.0) + WhiteKernel(0.03), tune="none")
    assert gp.noise_ == 0.03
    assert gp.kernel_ == kernels.SquaredExponential(1.0)
    assert fitted(kernel=RBF(1.0) + WhiteKernel(0.03), noise=0.02, tune="none").noise_ == pytest.approx(0.05)


@every_method
def test_works_in_pipelines_searches_and_cross_validation(method):
    X, y = wave(150)
    gp = StreamingGPRegressor(method=method, rank=60, random_state=0)
    assert cross_val_score(make_pipeline(StandardScaler(), gp), X * [1, 100, 0.01], y, cv=3).min() > 0.5
    search = GridSearchCV(gp, {"kernel": [None, kernels.Matern(1.0), RBF(2.0)], "noise": ["auto", 0.1]}, cv=2)
    assert search.fit(X, y).best_score_ > 0.5
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert_array_equal(again.predict(X), search.predict(X))


def test_a_large_batch_equals_its_parts():
    X, y = wave(4500)
    gp = StreamingGPRegressor(
        kernels.SquaredExponential(2.0), tune="none", noise=0.1, method="srmf", rank=30, random_state=0
    )
    whole = clone(gp).partial_fit(X, y)
    parts = clone(gp)
    for i in range(0, 4500, 2000):
        parts.partial_fit(X[i : i + 2000], y[i : i + 2000])
    assert_allclose(whole.predict(X), parts.predict(X), atol=1e-10)


@every_method
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_array_libraries_agree(method, library, dtype):
    X, y = wave(160)
    gps = []
    for convert in (np.asarray, library.asarray):
        gp = StreamingGPRegressor(method=method, rank=25, random_state=0)
        for i in range(0, 160, 40):
            gp.partial_fit(convert(X[i : i + 40].astype(dtype)), convert(y[i : i + 40].astype(dtype)))
        gps.append(gp)
    new = X0.astype(dtype)
    ours, theirs = gps[0].predict(new, return_std=True), gps[1].predict(library.asarray(new), return_std=True)
    # The randomized range in single precision turns rounding of 1e-7 into directions that differ by 1e-4.
    atol = 1e-9 if dtype == "float64" else 2e-3
    for a, b in zip(ours, theirs, strict=True):
        assert type(b) is type(library.asarray(new))
        assert str(b.dtype).endswith(dtype)
        assert_allclose(library.to_numpy(b), a, atol=atol)
    assert gps[1].log_evidence() == pytest.approx(
        gps[0].log_evidence(), rel=1e-8 if dtype == "float64" else 1e-2
    )


def test_an_array_of_another_library_is_refused_not_copied(library):
    if library.name.startswith("numpy"):
        pytest.skip("NumPy is the same library")
    gp = fitted()
    with pytest.raises(InputError, match="convert X"):
        gp.predict(library.asarray(X0))
    with pytest.raises(InputError, match="convert X"):
        gp.partial_fit(library.asarray(X0), library.asarray(Y0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: (X[:, :2], y), "2 features"),
        (lambda X, y: (np.where(np.eye(20, 3) > 0, np.nan, X), y), "X contains NaN or infinity"),
        (lambda X, y: (X, np.where(np.arange(20) > 3, np.inf, y)), "y contains NaN or infinity"),
        (lambda X, y: (X, y[:5]), "a target for each row"),
        (lambda X, y: (X[0], y), "give \\(n, d\\)"),
        (lambda X, y: (X[:0], y[:0]), "give \\(n, d\\)"),
        (lambda X, y: (X > 0, y), "real numbers"),
    ],
)
def test_other_libraries_batches_are_refused_as_clearly(library, change, words):
    if library.name.startswith("numpy"):
        pytest.skip("checked by scikit-learn")
    gp = StreamingGPRegressor(random_state=0).partial_fit(library.asarray(X0), library.asarray(Y0))
    before = gp.__dict__.copy()
    X, y = change(X0, Y0)
    with pytest.raises(InputError, match=words):
        gp.partial_fit(library.asarray(X), library.asarray(y))
    assert gp.__dict__ == before


def test_single_precision_models_refuse_what_does_not_fit():
    X, y = wave(60)
    gp = StreamingGPRegressor(random_state=0).partial_fit(X.astype(np.float32), y)
    with pytest.raises(InputError, match="beyond the range of float32"):
        gp.predict(np.full((1, 3), 1e200))


@every_method
@pytest.mark.parametrize("size", [10, 60])
def test_a_caller_may_reuse_its_buffer(method, size):
    X, y = wave(120)
    reused, fresh = (StreamingGPRegressor(method=method, rank=30, random_state=0) for _ in range(2))
    buffer_X, buffer_y = np.empty((size, 3)), np.empty(size)
    for i in range(0, 120, size):
        buffer_X[:], buffer_y[:] = X[i : i + size], y[i : i + size]
        if i:
            reused.predict(buffer_X)
        reused.partial_fit(buffer_X, buffer_y)
        fresh.partial_fit(X[i : i + size], y[i : i + size])
    assert_array_equal(reused.predict(X), fresh.predict(X))


def test_threads_leave_the_blas_pools_as_they_were():
    from threadpoolctl import threadpool_info

    def pools():
        return [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]

    before = pools()
    X, y = wave(200)

    def work():
        for _ in range(5):
            StreamingGPRegressor(rank=20, random_state=0).fit(X, y).predict(X)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pools() == before


def test_a_long_batch_is_forgotten_once():
    X, y = wave(5000)
    gp = StreamingGPRegressor(
        KERNEL, tune="none", noise=0.1, method="rgp", rank=20, forgetting=0.5, random_state=0
    )
    gp.partial_fit(X[:100], y[:100]).partial_fit(X, y)
    assert gp._stream.model.count == 5050
    gp.set_params(method="pivoted").fit(X[:100], y[:100]).partial_fit(X, y)
    assert gp._stream.model.count == 5050


@pytest.mark.parametrize(
    "kernel", [kernels.DistancePolynomial((0.0, 1.0, 1.0, 1.0)), kernels.Linear()], ids=str
)
@pytest.mark.parametrize("method", ["nrmf", "srmf"])
@pytest.mark.parametrize("n", [20, 50, 150])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_kernel_that_overflows_is_an_error_and_never_a_number(kernel, method, n):
    X, y = wave(n)
    gp = StreamingGPRegressor(kernel, tune="none", method=method, noise=0.1, random_state=0)
    with pytest.raises((InputError, NumericalError)):
        gp.fit(X * 1e160, y)
    gp.fit(X, y)
    with pytest.raises(InputError):
        gp.predict(X * 1e160, return_std=True)


@every_method
@pytest.mark.parametrize("size", [1e-8, 1e-150])
def test_noise_far_below_the_prior_still_gives_finite_answers(method, size):
    X, y = wave(150)
    gp = StreamingGPRegressor(
        kernels.SquaredExponential(1.0), tune="none", method=method, random_state=0
    ).fit(X, y * size)
    mean, std = gp.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std >= 0).all()
    assert np.corrcoef(mean / size, y)[0, 1] > 0.9


@every_method
@pytest.mark.filterwarnings("ignore::streamgp.errors.NegativeVarianceWarning")
def test_single_precision_with_little_noise_is_finite_and_has_an_evidence(method):
    X = np.linspace(0, 6, 600, dtype=np.float32)[:, None]
    for noise in (1e-5, 1e-7):
        gp = StreamingGPRegressor(
            kernels.SquaredExponential(1.0), tune="none", method=method, noise=noise, random_state=0
        )
        gp.fit(X, np.sin(X[:, 0]))
        # A basis of single-precision rows is cut where residuals are 600·10·eps of the prior: 0.03 of its root.
        assert_allclose(gp.predict(X), np.sin(X[:, 0]), atol=0.03)
        assert np.isfinite(gp.log_evidence())


def test_negative_variances_beyond_rounding_are_counted_for_valid_kernels_too(monkeypatch):
    gp = fitted("nrmf", kernel=kernels.SquaredExponential(1.0), noise=0.1)
    model = type(gp._stream.model)
    right = model.predict

    def wrong(self, X, **asked):
        out = right(self, X, **asked)
        return replace(out, variance=out.variance - 2.0)

    monkeypatch.setattr(model, "predict", wrong)
    with pytest.warns(NegativeVarianceWarning, match=r"20 of 20 .* rounding of float64"):
        _, std = gp.predict(X0, return_std=True, latent=True)
    assert (std == 0).all()


def test_a_refused_fit_does_not_move_the_users_generator():
    generator = np.random.RandomState(0)
    before = generator.get_state()[1].copy()
    with pytest.raises(KernelError):
        StreamingGPRegressor(kernels.SquaredExponential([1.0, 2.0]), tune="none", random_state=generator).fit(
            X0, Y0
        )
    assert_array_equal(generator.get_state()[1], before)
    a, b = (StreamingGPRegressor(rank=5, random_state=generator).fit(X0, Y0) for _ in range(2))
    assert a._stream.settings.seed != b._stream.settings.seed


@pytest.mark.parametrize("seed", [-1, 1.5, "a"])
def test_a_seed_that_is_none_is_refused_at_once(seed):
    with pytest.raises(ParameterError, match="random_state="):
        StreamingGPRegressor(random_state=seed).fit(X0, Y0)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (X0, ["a"] * 20),
        (X0, np.array([None] * 20)),
        (X0, 3.0),
        (X0, Y0.astype("datetime64[s]")),
        (X0.astype("datetime64[s]"), Y0),
        (X0.astype(str), Y0),
        (X0, sparse.csr_matrix(Y0[:, None])),
        (sparse.csr_matrix(X0), Y0),
        (None, Y0),
        (X0, None),
        (X0 + 1j, Y0),
        (X0, Y0 + 1j),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(X, y):
    with pytest.raises(InputError):
        StreamingGPRegressor(random_state=0).fit(X, y)


def test_derivative_graphs_and_odd_precisions_of_torch_are_taken_as_numbers():
    torch = pytest.importorskip("torch")
    X, y = torch.asarray(X0).requires_grad_(), torch.asarray(Y0)
    gp = StreamingGPRegressor(random_state=0).fit(X, y)
    assert_allclose(
        gp.predict(X).numpy(), StreamingGPRegressor(random_state=0).fit(X0, Y0).predict(X0), atol=1e-9
    )
    assert np.isfinite(
        StreamingGPRegressor(random_state=0).fit(X.detach().bfloat16(), y).predict(X).numpy()
    ).all()
    for bad in (y + 1j, y[:, None][:, :0], ["a"] * 20):
        with pytest.raises(InputError):
            StreamingGPRegressor(random_state=0).fit(X, bad)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("b", "x", "Row 3, column 'b': 'x'"),
        ("c", np.nan, "Row 3, column 'c': 'nan'"),
        ("a", np.inf, "Row 3, column 'a'"),
    ],
)
def test_a_bad_cell_of_a_frame_is_named_and_nothing_else_is_advertised(column, value, said):
    frame = pd.DataFrame(X0[:, :3], columns=list("abc"))
    gp = StreamingGPRegressor(random_state=0).fit(frame, Y0)
    bad = frame.astype({column: object})
    bad.loc[3, column] = value
    for call, outcome in (
        (lambda: gp.predict(bad), "Nothing was predicted"),
        (lambda: gp.partial_fit(bad, Y0), "unchanged"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            call()
        assert outcome in str(caught.value)
        assert "HistGradientBoosting" not in str(caught.value)


@every_method
@pytest.mark.parametrize(
    "given", [{"noise": 1e198}, {"noise": 1e198, "kernel": 1e200 * kernels.SquaredExponential(1.0)}]
)
def test_targets_of_1e100_raise_no_warning(method, given):
    X, y = wave(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        gp = StreamingGPRegressor(method=method, rank=30, random_state=0, **given)
        for i in range(0, 200, 50):
            gp.partial_fit(X[i : i + 50], 1e100 * y[i : i + 50])
        _, lower, upper = gp.predict(X, return_interval=0.9)
    assert np.isfinite(upper - lower).all()


def test_masked_values_are_refused_and_a_mask_of_nothing_is_none():
    X, y = wave(60)
    masked_X, masked_y = np.ma.masked_array(X, X > 1.9), np.ma.masked_array(y, y > 2)
    assert masked_X.mask.any()
    gp = StreamingGPRegressor(random_state=0)
    for rows, targets, name in ((masked_X, y, "X"), (X, masked_y, "y")):
        with pytest.raises(
            InputError, match=rf"{name} is a masked array with \d+ masked values, the first at"
        ):
            gp.fit(rows, targets)
    with pytest.raises(InputError, match="X is a masked array"):
        gp.fit(list(masked_X), y)
    gp.fit(np.ma.masked_array(X), np.ma.masked_array(y))
    with pytest.raises(InputError, match="masked array"):
        gp.predict(masked_X)
    assert_allclose(
        gp.predict(np.ma.masked_array(X)), StreamingGPRegressor(random_state=0).fit(X, y).predict(X)
    )
