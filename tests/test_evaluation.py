import numpy as np
import pytest
from scipy import stats

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import ParameterError
from streamgp.evaluation import Record, prequential, score, self_training, state_bytes
from streamgp.parameters import used_by

KERNEL = 1.5 * kernels.SquaredExponential(1.0)


def regressor(**given):
    return StreamingGPRegressor(
        KERNEL,
        tune="none",
        noise=0.02,
        random_state=0,
        **used_by(given.pop("method", "pivoted"), rank=60),
        **given,
    )


SIZES = [(100, 30, None), (100, 30, 50), (100, 100, None), (7, 10, 20), (90, 30, 30)]


@pytest.mark.parametrize(("n", "batch", "first"), SIZES)
def test_every_row_is_learned_once_and_in_order(n, batch, first):
    X, y = wave(n)
    gp = regressor(method="nrmf")
    records = list(prequential(gp, X, y, batch_size=batch, first=first))
    whole = regressor(method="nrmf").partial_fit(X, y)
    np.testing.assert_allclose(gp.predict(X), whole.predict(X), atol=1e-9)
    assert [r.batch for r in records] == list(range(len(records)))
    assert records[-1].rows_seen == n
    sizes = np.diff([0, *(r.rows_seen for r in records)])
    assert sizes[0] == min(n, first or batch)
    assert all(s == batch for s in sizes[1:-1])


def test_a_record_scores_predictions_made_before_the_batch_was_learned():
    X, y = wave(120)
    gp, twin = regressor(), regressor()
    records = []
    for record in prequential(gp, X, y, batch_size=40):
        records.append(record)
        assert gp.n_samples_seen_ == record.rows_seen  # records come lazily, one per batch
    assert records[0].rmse is records[0].nlpd is records[0].coverage is None
    twin.partial_fit(X[:40], y[:40])
    mean, std = twin.predict(X[40:80], return_std=True)
    assert records[1].rmse == pytest.approx(np.sqrt(np.mean((y[40:80] - mean) ** 2)))
    assert records[1].nlpd == pytest.approx(-np.mean(stats.norm(mean, std).logpdf(y[40:80])))
    low, high = stats.norm(mean, std).interval(0.9)
    assert records[1].coverage == pytest.approx(np.mean((low <= y[40:80]) & (y[40:80] <= high)))
    assert records[2].rank == gp.rank_
    assert records[2].trace_error == gp.trace_error_
    assert records[1].predict_seconds > 0
    assert records[1].update_seconds > 0
    assert isinstance(records[0], Record)


def test_a_fitted_regressor_is_scored_from_the_first_batch():
    X, y = wave(120)
    gp = regressor().partial_fit(X[:40], y[:40])
    records = list(prequential(gp, X[40:], y[40:], batch_size=40))
    assert records[0].rmse is not None
    assert records[-1].rows_seen == 120


def test_self_training_never_uses_a_later_label():
    X, y = wave(120)
    poisoned = y.copy()
    poisoned[40:] = 1e6
    a, b = regressor(), regressor()
    list(self_training(a, X, y, batch_size=40))
    list(self_training(b, X, poisoned, batch_size=40))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


def test_score_of_several_outputs_is_over_all_entries():
    rng = np.random.default_rng(0)
    y, mean, std = rng.standard_normal((30, 3)), rng.standard_normal((30, 3)), rng.uniform(0.5, 2, (30, 3))
    rmse, nlpd, coverage = score(y, mean, std)
    assert rmse == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))
    assert nlpd == pytest.approx(-stats.norm(mean, std).logpdf(y).mean())
    assert coverage == np.mean(np.abs(y - mean) <= stats.norm.ppf(0.95) * std)


@pytest.mark.parametrize("arguments", [{"batch_size": 0}, {"first": 0}, {"batch_size": 2.5}])
def test_a_batch_size_out_of_range_is_refused_at_once(arguments):
    X, y = wave(20)
    with pytest.raises(ParameterError, match="must be a whole number, 1 or more"):
        prequential(regressor(), X, y, **arguments)


def test_rows_without_a_target_are_refused_at_once():
    X, y = wave(20)
    with pytest.raises(ParameterError, match="X has 20 rows, y 19"):
        prequential(regressor(), X, y[:-1])


def test_state_bytes_counts_the_arrays_of_the_model():
    X, y = wave(100)
    gp = regressor(method="srmf").fit(X, y)
    model = gp.learner_.state
    at_least = sum(a.nbytes for a in (model.X, model.y, model.factor.U, model.factor.S))
    assert at_least <= state_bytes(gp) <= at_least + 10_000


@pytest.mark.parametrize(("delay", "batch"), [(0, 20), (7, 20), (60, 20), (500, 20), (24, 1)])
def test_a_delayed_label_is_learned_so_many_rows_later(delay, batch):
    X, y = wave(160)
    gp, twin = regressor(), regressor().partial_fit(X[:40], y[:40])
    done = 40
    for record, i in zip(
        list(prequential(gp, X, y, batch_size=batch, first=40, delay=delay))[1:],
        range(40, 160, batch),
        strict=True,
    ):
        mean = twin.predict(X[i : i + batch], return_std=True)[0]
        assert record.rmse == pytest.approx(np.sqrt(np.mean((y[i : i + batch] - mean) ** 2)))
        if i + batch - delay > done:
            twin.partial_fit(X[done : i + batch - delay], y[done : i + batch - delay])
            done = i + batch - delay
        assert record.rows_seen == done
    assert gp.interval_factor(0.9) == twin.interval_factor(0.9)


@pytest.mark.parametrize("delay", [-1, 2.5, True])
def test_a_delay_out_of_range_is_refused_at_once(delay):
    X, y = wave(20)
    with pytest.raises(ParameterError, match="must be a whole number, 0 or more"):
        prequential(regressor(), X, y, delay=delay)
