"""The laws that hold between methods."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from conftest import Counting, wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import InputTypeError
from streamgp.evaluation import self_training
from streamgp.gp.posterior import log_density
from streamgp.methods.exact import ExactState
from streamgp.methods.pivoted import PivotedState
from streamgp.methods.printed import PrintedWeightedState
from streamgp.methods.spectral import SpectralConfig, SpectralState
from streamgp.methods.weighted import WeightedState
from streamgp.online import history
from streamgp.parameters import used_by
from streams import AFFINE, APPROXIMATIONS, KERNEL, LOW_RANK_IDS, assert_predict_alike, learned


def assert_method_itself(gp):
    """Until it has `rank` rows, rgp is the exact GP: that would be compared with itself."""
    assert isinstance(gp.learner_.state, ExactState) == (gp.method == "nrmf")


@pytest.mark.parametrize("given", APPROXIMATIONS, ids=LOW_RANK_IDS)
@pytest.mark.parametrize(("batch", "noise", "outputs"), [(40, 0.01, None), (7, 0.3, 3), (160, 1.0, 1)])
def test_at_full_rank_every_method_is_the_exact_gp(given, batch, noise, outputs):
    X, y = wave(160, q=outputs)
    exact = learned(X, y, batch, noise=noise, method="nrmf")
    other = learned(X, y, batch, noise=noise, rank=160, **given)
    assert_method_itself(other)
    assert_predict_alike(other, exact, wave(30, seed=1)[0], 1e-8)
    assert other.log_evidence() == pytest.approx(exact.log_evidence(), rel=1e-8)
    assert other.trace_error_ == pytest.approx(0.0, abs=1e-8)


def exact_evidence(K, y):
    """The log density of targets (n, q), each column of covariance K (n, n)."""
    quadratic = float((y * np.linalg.solve(K, y)).sum())
    found = log_density(quadratic, np.linalg.slogdet(K)[1], *y.shape)
    assert found == pytest.approx(sum(multivariate_normal(cov=K).logpdf(c) for c in y.T), rel=1e-9)
    return found


@pytest.mark.parametrize("given", [{"method": "nrmf"}, *APPROXIMATIONS], ids=["nrmf", *LOW_RANK_IDS])
@pytest.mark.parametrize(("batch", "noise", "outputs"), [(25, 0.1, 1), (100, 2.0, 3)])
def test_at_full_rank_the_evidence_of_every_method_is_the_density_of_the_exact_covariance(
    given, batch, noise, outputs
):
    X, y = wave(100, q=outputs)
    gp = learned(X, y, batch, noise=noise, rank=100, **given)
    assert_method_itself(gp)
    expected = exact_evidence(KERNEL.block(X) + noise * np.eye(100), y)
    assert gp.learner_.state.log_evidence() == pytest.approx(expected, rel=1e-8)
    assert gp.log_evidence() == pytest.approx(expected, rel=1e-8)  # of a given kernel: the targets' own units


@pytest.mark.parametrize("kernel", [*AFFINE[3:], kernels.DistancePolynomial((0.0, 0.03, 0.01))], ids=str)
@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("kind", [SpectralState, WeightedState, PrintedWeightedState])
def test_at_full_rank_the_evidence_of_affine_kernels_is_the_density_of_the_exact_covariance(
    kernel, sequential, kind
):
    X, y = wave(60, q=2)
    noise = 0.4 if kernel.positive_semidefinite else 9.0  # above the negative eigenvalues
    state = kind.empty(SpectralConfig(60, 10, 0, sequential), kernel, noise, X, y)
    state = state.update(X[:25], y[:25]).update(X[25:], y[25:])
    expected = exact_evidence(kernel.block(X) + noise * np.eye(60), y)
    assert state.log_evidence() == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("given", [{"method": "nrmf"}, *APPROXIMATIONS], ids=["nrmf", *LOW_RANK_IDS])
def test_two_batches_equal_one_of_both_at_full_rank(given):
    X, y = wave(120)
    one, two = learned(X, y, 120, rank=120, **given), learned(X, y, 60, rank=120, **given)
    assert_method_itself(one)
    assert_method_itself(two)
    assert_predict_alike(one, two, wave(30, seed=1)[0], 1e-8)


@pytest.mark.parametrize("given", [{"method": "nrmf"}, *APPROXIMATIONS], ids=["nrmf", *LOW_RANK_IDS])
@pytest.mark.parametrize("batch", [20, 55])
def test_self_training_does_not_move_the_exact_mean(given, batch):
    X, y = wave(200)
    gp = StreamingGPRegressor(KERNEL, tune="none", noise=0.01, random_state=0, **used_by(rank=200, **given))
    list(self_training(gp, X, y, batch_size=batch, first=60))
    assert_method_itself(gp)
    labelled = learned(X[:60], y[:60], 60, method="nrmf")
    new = wave(30, seed=1)[0]
    if given["method"] == "nrmf":
        assert_allclose(gp.predict(new), labelled.predict(new), atol=1e-10)
    else:
        assert_allclose(gp.predict(new), labelled.predict(new), atol=1e-7)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["pivoted", "srmf", "brmf", "rgp"]),
    st.integers(1, 30),
    st.integers(1, 40),
    st.floats(1e-4, 2.0),
    st.integers(0, 10**6),
)
def test_variance_is_never_negative_for_a_valid_kernel(method, rank, batch, noise, seed):
    X, y = wave(80, seed=seed)
    X[40:60] = X[:20]
    gp = learned(X, y, batch, noise=noise, method=method, rank=rank)
    _, std = gp.predict(
        np.concatenate([X, wave(20, seed=1)[0]]), return_std=True, latent=True
    )  # a warning fails
    assert (std >= 0).all()


@pytest.mark.filterwarnings("ignore::streamgp.errors.NegativeVarianceWarning")
def test_kernel_entries_are_as_many_as_the_formula_says(monkeypatch):
    monkeypatch.setattr(PivotedState, "_is_urgent", lambda *_: False)  # a novel row is looked at, too
    n, b, m, r = 100, 20, 15, 30
    X, y = wave(n + b)
    new = wave(m, seed=1)[0]
    learn_and_predict = {
        ("srmf", "projected"): (n * b + b * b, n + b),
        # Where learning does not need what predicting does, the batch is predicted apart, to be scored: n·b more.
        ("srmf", "literal"): (n * b + b * b + n * b, n + b),
        ("brmf", "projected"): (2 * (n + b) ** 2 + n * b, n + b),
        ("nrmf", "projected"): (n * b + b * b, n + b),
        ("rgp", "projected"): (b * r + b * b, r),
        # Twenty rows wait to be folded in, so that only their features are taken.
        ("pivoted", "projected"): (b * r, r),
    }
    for (method, variant), (learning, predicting) in learn_and_predict.items():
        kernel = Counting(KERNEL)
        gp = learned(X[:n], y[:n], n, kernel=kernel, method=method, rank=r, oversampling=5, variant=variant)
        kernel.taken()
        gp.partial_fit(X[n:], y[n:])
        assert kernel.taken() == learning, method
        gp.predict(new, return_std=True)
        assert kernel.taken() == predicting * m, method


def test_nothing_but_rows_and_factors_grows_and_rgp_does_not_grow_at_all(monkeypatch):
    from streamgp.evaluation import state_bytes

    monkeypatch.setattr(history, "LEDGER_ROWS", 1000)
    X, y = wave(2600)
    sizes = [state_bytes(learned(X[:n], y[:n], 50, method="rgp", rank=40)) for n in (2200, 2600)]
    assert sizes[0] == sizes[1]
    grown = [state_bytes(learned(X[:n], y[:n], 50, method="srmf", rank=40)) for n in (800, 1600)]
    assert grown[1] < 2.2 * grown[0]


@pytest.mark.parametrize(
    "given",
    [
        {"method": "pivoted", "rank": 20},
        {"method": "rgp", "rank": 20},
        {"method": "srmf", "rank": 20},
        {"method": "srmf", "rank": 20, "kernel": "dictionary"},
        {"method": "nrmf"},
    ],
    ids=str,
)
def test_a_retuned_state_does_not_answer_from_what_it_predicted_before(given):
    X, y = wave(100)
    state = StreamingGPRegressor(random_state=0, **given).fit(X, y).learner_.state
    new = wave(10, seed=1)[0]
    state.predict(new)
    retuned = state.retuned(state.kernel.with_theta(state.kernel.theta + 0.7), 20 * state.noise)
    answer = retuned.predict(new)
    retuned.recent._last = None
    assert_allclose(answer.mean, retuned.predict(new).mean, rtol=1e-12)


def test_only_a_regressor_can_be_merged():
    X, y = wave(100)
    gp = StreamingGPRegressor(rank=20, random_state=0).fit(X, y)
    with pytest.raises(InputTypeError, match="takes another StreamingGPRegressor"):
        gp.merge(None)
