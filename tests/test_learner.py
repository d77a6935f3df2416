"""The loop of the learner: first rows, forgetting, and finite answers on odd data."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import streamgp
from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import InputError, NumericalError, ParameterError
from streamgp.methods.exact import ExactState
from streamgp.methods.recursive import RecursiveState
from streamgp.parameters import used_by
from streamgp.tuning.start import MIN_ROWS
from streams import KERNEL, every_method, fitted, plane


@every_method
def test_the_first_rows_count_the_same_one_by_one_as_in_one_batch(method):
    X, y = wave(MIN_ROWS + 10)
    # A first batch is tuned on at once, rows one by one beside the stream.
    given = {**used_by(method, rank=30), "tune": "none", "random_state": 0}
    one = StreamingGPRegressor(**given).partial_fit(X[:MIN_ROWS], y[:MIN_ROWS])
    many = StreamingGPRegressor(**given)
    for i in range(MIN_ROWS):
        many.partial_fit(X[i : i + 1], y[i : i + 1])
        assert np.isfinite(many.predict(X)).all()
    assert many.kernel_ == one.kernel_
    assert_allclose(many.predict(X), one.predict(X), atol=1e-12)
    assert many.learner_.first is None


def test_one_large_first_batch_is_as_good_as_many_small_ones():
    X, y = plane(2000)
    new, truth = plane(300, seed=9, noise=0.0)
    whole = StreamingGPRegressor(random_state=0).fit(X, y)
    parts = StreamingGPRegressor(random_state=0)
    for i in range(0, 2000, 100):
        parts.partial_fit(X[i : i + 100], y[i : i + 100])
    errors = [np.sqrt(np.mean((gp.predict(new) - truth) ** 2)) for gp in (whole, parts)]
    assert max(errors) < 0.03


def test_rgp_is_the_exact_gaussian_process_until_its_basis_is_complete():
    X, y = wave(130)
    arguments = {"kernel": kernels.SquaredExponential(1.0), "noise": 0.05, "tune": "none", "random_state": 0}
    gp = StreamingGPRegressor(method="rgp", rank=100, **arguments)
    exact = StreamingGPRegressor(method="nrmf", **arguments)
    kinds = set()
    for i in range(0, 130, 10):
        for g in (gp, exact):
            g.partial_fit(X[i : i + 10], y[i : i + 10])
        kinds.add(type(gp.learner_.state))
        if i < 100:
            for a, b in zip(*(g.predict(X, return_std=True) for g in (gp, exact)), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-7)
    assert kinds == {ExactState, RecursiveState}
    assert gp.pivots_.shape == (100, 3)


def test_rgp_is_tuned_while_its_basis_is_gathered_and_saved_bit_for_bit(tmp_path):
    X, y = wave(450)
    gp = StreamingGPRegressor(method="rgp", rank=240, random_state=0)
    for i in range(0, 200, 10):
        gp.partial_fit(X[i : i + 10], y[i : i + 10])
    assert isinstance(gp.learner_.state, ExactState)
    assert gp.learner_.schedule.tunings >= 2
    assert gp.learner_.asked is not None
    assert gp.rank_ == 200
    np.testing.assert_array_equal(gp.pivots_, X[:200])
    gp.save(tmp_path / "model")
    again = streamgp.load(tmp_path / "model")
    tunings, seconds = gp.learner_.schedule.tunings, gp.tuning_seconds_
    for g in (gp, again):
        g.partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(gp.predict(X), again.predict(X))
    assert gp.learner_.schedule.tunings == tunings + 1
    assert gp.tuning_seconds_ > seconds


def test_a_row_of_rgp_is_appended_and_not_all_rows_anew(monkeypatch):
    X, y = wave(150)
    gp = StreamingGPRegressor(method="rgp", rank=400, random_state=0).fit(X[:100], y[:100])
    seen = []
    original = ExactState._append
    monkeypatch.setattr(
        ExactState, "_append", lambda self, X, *rest: seen.append(len(X)) or original(self, X, *rest)
    )
    for i in range(100, 150):
        gp.partial_fit(X[i : i + 1], y[i : i + 1])
    assert seen == [1] * 50


def test_rgp_forgets_nothing_while_its_basis_is_gathered():
    X, y = wave(90)
    gp, never = (
        StreamingGPRegressor(method="rgp", rank=100, random_state=0, forgetting=f) for f in (0.5, 1.0)
    )
    for g in (gp, never):
        g.fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    np.testing.assert_array_equal(gp.predict(X), never.predict(X))
    assert gp.learner_.sample.favour == 0.0


def test_a_long_batch_is_forgotten_once():
    X, y = wave(5000)
    gp = StreamingGPRegressor(
        1.5 * kernels.SquaredExponential(1.0),
        tune="none",
        noise=0.1,
        method="rgp",
        rank=20,
        forgetting=0.5,
        random_state=0,
    )
    gp.partial_fit(X[:100], y[:100]).partial_fit(X, y)
    assert gp.learner_.state.count == 5050
    gp.set_params(method="pivoted").fit(X[:100], y[:100]).partial_fit(X, y)
    assert gp.learner_.state.count == 5050


def test_white_noise_in_the_kernel_is_the_noise():
    gp = fitted(kernel=RBF(1.0) + WhiteKernel(0.03), tune="none")
    assert gp.noise_ == 0.03
    assert gp.kernel_ == kernels.SquaredExponential(1.0)
    assert fitted(kernel=RBF(1.0) + WhiteKernel(0.03), noise=0.02, tune="none").noise_ == pytest.approx(0.05)


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
        gp = StreamingGPRegressor(**used_by(method, rank=20), random_state=0)
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
    gp = StreamingGPRegressor(**used_by(method, rank=data.draw(st.integers(1, 15))), random_state=0)
    for i in range(0, n, 5):
        gp.partial_fit(X[i : i + 5], y[i : i + 5])
    mean, std = gp.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()


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


@pytest.mark.parametrize("method", ["pivoted", "rgp"])
@pytest.mark.parametrize("memory", [2000.0, 500.0])
def test_memory_in_rows_does_not_depend_on_the_batches(method, memory):
    X, y = wave(400)
    ends, rank = [], 400 if method == "pivoted" else 40
    for batch in (1, 10, 100):
        gp = StreamingGPRegressor(
            KERNEL, noise=0.1, tune="none", method=method, rank=rank, memory_rows=memory, random_state=0
        )
        gp.partial_fit(X[:100], y[:100])
        for i in range(100, 400, batch):
            gp.partial_fit(X[i : i + batch], y[i : i + batch])
        ends.append(gp)
    # A row learned with its batch weighs up to e^(batch/memory) too much: half of that on average.
    counts = [gp.learner_.state.count for gp in ends]
    weights = np.exp(-(399 - np.maximum(np.arange(400), 99)) / memory).sum()
    np.testing.assert_allclose(counts, weights, rtol=0.55 * 100 / memory)
    np.testing.assert_allclose(counts[:2], weights, rtol=0.55 * 10 / memory)
    if method == "pivoted":  # with every row a pivot, nothing but the weights can differ
        one, ten, hundred = (gp.predict(X) for gp in ends)
        assert np.abs(one - ten).max() < 2 / memory
        assert np.abs(one - hundred).max() < 20 / memory


def test_memory_in_rows_is_the_effective_number_of_rows_and_can_change():
    X, y = wave(3000)
    gp = StreamingGPRegressor(KERNEL, noise=0.1, tune="none", rank=30, memory_rows=200, random_state=0)
    for i in range(0, 2000, 10):
        gp.partial_fit(X[i : i + 10], y[i : i + 10])
    assert abs(gp.learner_.state.count / 200 - 1) < 0.03
    gp.set_params(memory_rows=None)
    gp.partial_fit(X[2000:], y[2000:])
    assert abs(gp.learner_.state.count / 1200 - 1) < 0.01
    gp.set_params(memory_rows=1).partial_fit(X[:500], y[:500])  # nothing is left of the past
    assert abs(gp.learner_.state.count / 500 - 1) < 1e-6
    assert np.isfinite(gp.predict(X)).all()


@pytest.mark.parametrize("given", [{"forgetting": 0.9}, {"method": "nrmf", "rank": 500}])
def test_memory_in_rows_is_refused_beside_forgetting_and_where_nothing_is_forgotten(given):
    X, y = wave(60)
    with pytest.raises(ParameterError, match="memory_rows"):
        StreamingGPRegressor(memory_rows=100, **given).fit(X, y)


@pytest.mark.parametrize("rows", [0, 0.5, -1, np.inf, np.nan, "10", True])
def test_a_memory_that_is_no_number_of_rows_is_refused(rows):
    with pytest.raises(ParameterError, match="memory_rows"):
        StreamingGPRegressor(memory_rows=rows).fit([[0.0], [1.0]], [0.0, 1.0])
