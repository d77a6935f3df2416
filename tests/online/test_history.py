"""Laws of unlearning: what can be known to be wrong is refused, and nothing changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import streamgp
from conftest import wave
from streamgp import StreamingGPRegressor
from streamgp.errors import InputError
from streamgp.online import history
from streamgp.online.history import Ledger, fingerprints
from streamgp.parameters import used_by

both_methods = pytest.mark.parametrize("method", ["pivoted", "rgp"])


def stream(X, y, method="pivoted", batch=50, **arguments):
    # Rows that are wrong are learned here, and nothing is forgotten, so that they can be unlearned.
    plain = {"guard": None, "forgetting": 1.0}
    given_ = {"rank": 60, "tune": "none", "random_state": 0, **plain, **arguments}
    gp = StreamingGPRegressor(method=method, **given_)
    for i in range(0, len(X), batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    return gp


def assert_refused(gp, X, y, match="not learned"):
    before = gp.predict(X, return_std=True), gp.n_samples_seen_
    with pytest.raises(InputError, match=match):
        gp.unlearn(X, y)
    assert all((a == b).all() for a, b in zip(gp.predict(X, return_std=True), before[0], strict=True))
    assert gp.n_samples_seen_ == before[1]


@both_methods
@pytest.mark.parametrize("shift", [0.0, 50.0])
@pytest.mark.parametrize("later", [0, 100, 700])
def test_a_batch_is_unlearned_once(method, shift, later):
    X, y = wave(1050 + later)
    y[1000:1050] += shift
    gp = stream(X, y, method)
    gp.unlearn(X[1000:1050], y[1000:1050])
    for _ in range(3):
        assert_refused(gp, X[1000:1050], y[1000:1050])


@both_methods
def test_rows_never_learned_are_refused(method):
    X, y = wave(800)
    gp = stream(X[:700], y[:700], method)
    assert_refused(gp, X[700:], y[700:])
    assert_refused(gp, X[:50], y[:50] + 1e-9)
    assert_refused(gp, np.r_[X[:20], X[700:701]], np.r_[y[:20], y[700:701]], match="row 20 ")


@both_methods
def test_as_many_copies_of_a_row_are_unlearned_as_were_learned(method):
    X, y = wave(200)
    gp = stream(X, y, method)
    row, target = X[:1] + 0.1, y[:1]
    for _ in range(3):
        gp.partial_fit(row, target)
    for _ in range(3):
        gp.unlearn(row, target)
    assert_refused(gp, row, target)
    gp.partial_fit(row, target).unlearn(row, target)
    assert_refused(gp, row, target)


@both_methods
def test_the_ledger_is_saved_and_merged(method, tmp_path):
    X, y = wave(400)
    kernel = streamgp.kernels.SquaredExponential(1.0)
    arguments = {
        "method": method,
        "kernel": kernel,
        "noise": 0.02,
        "basis": X[:60] if method == "rgp" else None,
    }
    gp = stream(X[:200], y[:200], **arguments).unlearn(X[100:150], y[100:150])
    gp.save(tmp_path / "model")
    again = streamgp.load(tmp_path / "model")
    assert_refused(again, X[100:150], y[100:150])
    again.merge(stream(X[200:], y[200:], **arguments))
    again.unlearn(X[250:300], y[250:300])
    assert_refused(again, X[250:300], y[250:300])
    assert_refused(again, X[100:150], y[100:150])


@both_methods
def test_rows_older_than_the_memory_pass_unless_a_certificate_fails(method, monkeypatch):
    monkeypatch.setattr(history, "LEDGER_ROWS", 100)
    X, y = wave(600)
    gp = stream(X, y, method)
    gp.unlearn(X[:50], y[:50])  # older than the memory
    assert_refused(gp, X[:50], y[:50])  # but this has been seen since
    far = y[200:250] + 50.0
    assert_refused(gp, X[200:250], far, match="were not learned, or not with these values")


@both_methods
def test_statistics_that_no_rows_can_have_are_refused_by_every_method(method):
    """The gram matrix of features and targets is positive semi-definite, of whatever rows."""
    X, y = wave(300)
    model = stream(X, y, method).learner_.state
    for rows, targets in ((X[:50], y[:50] + 20), (np.repeat(X[:1], 90, axis=0), np.repeat(y[:1], 90))):
        with pytest.raises(InputError, match="were not learned, or not with these values"):
            model.unlearn(rows, targets[:, None])


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_known_to_be_learned_leave_possible_statistics_though_pivots_have_changed(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (1750, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(1750)
    y[1000:1050] += 50.0
    gp = stream(X, y, rank=50)
    before = np.sqrt(np.mean((gp.predict(X[:1000]) - y[:1000]) ** 2))
    gp.unlearn(X[1000:1050], y[1000:1050])
    statistics = gp.learner_.state.posterior.statistics
    assert np.linalg.eigvalsh(statistics._joint).min() >= -1e-9 * np.trace(statistics._joint)
    assert 0 <= gp.trace_error_share_ <= 1
    after = np.sqrt(np.mean((gp.predict(X[:1000]) - y[:1000]) ** 2))
    # Pivots that came later hold a part of these rows that statistics cannot give back: less error, not none.
    assert after < 0.8 * before


@pytest.mark.parametrize("later", [0, 100, 300])
@pytest.mark.parametrize("tune", ["none", "doubling"])
def test_bad_rows_that_were_unlearned_leave_intervals_as_wide_as_they_were(later, tune):
    X, y = wave(1400)
    gp = stream(X[:1000], y[:1000], tune=tune)
    clean = stream(X[: 1000 + later], y[: 1000 + later], tune=tune)
    gp.partial_fit(X[1300:], y[1300:] + 50)
    for i in range(1000, 1000 + later, 50):
        gp.partial_fit(X[i : i + 50], y[i : i + 50])
    gp.unlearn(X[1300:], y[1300:] + 50)
    widths = [np.ptp(g.predict(X[:500], return_interval=0.9)[1:], axis=0).mean() for g in (gp, clean)]
    assert 0.8 < widths[0] / widths[1] < 1.25


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["learn", "unlearn"]), st.integers(0, 5)), max_size=40),
    st.sampled_from([np.float64, np.float32]),
)
def test_the_ledger_agrees_with_a_list(steps, dtype):
    X, y = np.arange(12.0, dtype=dtype).reshape(6, 2), np.array([[0.0], [0.0], [1.0], [-0.0], [2.0], [2.0]])
    kept, known = Ledger.empty(), []
    for what, i in steps:
        rows = X[i : i + 1], y[i : i + 1]
        if what == "learn":
            kept = kept.add(*rows)
            known.append(i)
        elif i in known:
            kept, listed = kept.without(*rows)
            known.remove(i)
            assert listed
        else:
            with pytest.raises(InputError):
                kept.without(*rows)
    assert kept.learned.size == len(known)


def test_fingerprints_tell_rows_apart_and_know_equal_ones():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 4, (100_000, 6)).astype(float)  # few bits differ
    found = fingerprints(table[:, :5], table[:, 5:])
    assert len(np.unique(found)) == len(np.unique(table, axis=0))
    single = fingerprints(table[:, :5].astype(np.float32), table[:, 5:])
    assert (single == found).all()
    zero = np.zeros((1, 1))
    assert fingerprints(zero, zero) == fingerprints(-zero, zero)
    assert fingerprints(zero, zero + 1) != fingerprints(zero + 1, zero)


def test_merging_a_model_of_lower_rank_leaves_a_certificate_that_is_one():
    """New pivots learn from remembered rows: of those of the other model the features of all pivots are computed."""
    kernel = 1.0 * streamgp.kernels.SquaredExponential([1.0, 1.0, 1.0])
    rng = np.random.default_rng(0)

    def rows(n, low, high):
        X = rng.uniform(low, high, (n, 3))
        return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]

    for rank in (50, 20, 5):
        arguments = {"kernel": kernel, "noise": 0.01}
        gp = stream(*rows(400, -2, 0.2), rank=300, **arguments)
        gp.merge(stream(*rows(600, -0.2, 2), rank=rank, **arguments))
        assert 0 <= gp.trace_error_share_ <= 1
        window, features = gp.learner_.state.window, gp.learner_.state.features
        assert_allclose(window.F, features.transform(window.X), atol=1e-8)
        more = rows(300, -2, 2)
        for i in range(0, 300, 50):
            gp.partial_fit(more[0][i : i + 50], more[1][i : i + 50])
        assert -1e-9 <= gp.trace_error_share_ <= 1


def test_a_row_learned_again_can_be_unlearned_again_however_late(monkeypatch):
    monkeypatch.setattr(history, "LEDGER_ROWS", 100)
    X, y = wave(400)
    gp = stream(X[:100], y[:100])
    gp.unlearn(X[:20], y[:20]).partial_fit(X[:20], y[:20])
    for i in range(100, 400, 50):
        gp.partial_fit(X[i : i + 50], y[i : i + 50])
    gp.unlearn(X[:20], y[:20])
    assert gp.n_samples_seen_ == 380


@both_methods
def test_a_sliding_window_over_rows_that_recur_is_never_refused(method, monkeypatch):
    monkeypatch.setattr(history, "LEDGER_ROWS", 200)
    rng = np.random.default_rng(0)
    X = rng.integers(0, 12, (1200, 2)).astype(float)
    y = np.sin(X[:, 0])
    gp = StreamingGPRegressor(**used_by(method, rank=60), tune="none", random_state=0)
    for i in range(0, 1200, 50):
        gp.partial_fit(X[i : i + 50], y[i : i + 50])
        if i >= 300:
            gp.unlearn(X[i - 300 : i - 250], y[i - 300 : i - 250])
    assert gp.n_samples_seen_ == 300


def test_rgp_refuses_to_unlearn_what_it_has_half_forgotten():
    X, y = wave(300)
    gp = stream(X, y, "rgp", forgetting=0.9)
    assert_refused(gp, X[:50], y[:50], match="the present weight of a row")


def test_tensors_of_the_host_are_fingerprinted_too():
    torch = pytest.importorskip("torch")
    X, y = wave(200)
    gp = stream(torch.asarray(X), torch.asarray(y))
    rows = torch.asarray(X[:50]), torch.asarray(y[:50])
    gp.unlearn(*rows)
    with pytest.raises(InputError, match="already unlearned"):
        gp.unlearn(*rows)
