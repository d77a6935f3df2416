"""Transformed targets: a model of log y, √y or logit y whose answers are in the units of y and in its range."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamgp import StreamingGPRegressor, load
from streamgp.errors import ExportError, InputError, ParameterError
from streamgp.export import export
from streamgp.transforms import TargetTransform, chosen

NAMES = ("log", "sqrt", "logit")


def positive(n, name="log", seed=0, q=1):
    """Inputs, and targets whose transform is a plane and a wave with normal noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    g = X[:, 0] + np.sin(2 * X[:, 1]) + 0.4 * rng.standard_normal(n)
    y = {"log": np.exp(g), "sqrt": (g + 4.0) ** 2, "logit": 1 / (1 + np.exp(-g)), None: g}[name]
    return X, y if q == 1 else np.stack([(j + 1) * y for j in range(q)], axis=1)


def learned(X, y, batch=50, **given):
    gp = StreamingGPRegressor(random_state=0, rank=60, neighbours=0, **given)
    for i in range(0, len(X), batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    return gp


@pytest.mark.parametrize("name", NAMES)
def test_undoing_a_transform_gives_the_target_back_and_stays_in_its_range(name):
    y = np.random.default_rng(0).uniform(0, 1, (50, 2)) * (1.0 if name == "logit" else [1e-3, 1e6])
    y[0] = 0.0
    transform = TargetTransform.of((name, name), y)
    # Rounding of a logarithm of the shift beside values up to a million times as large.
    assert_allclose(transform.undo(transform.apply(y)), y, rtol=1e-12, atol=1e-12 * y.max())
    far = transform.undo(np.array([[-1e3, -1e3], [1e3, 1e3]]))
    assert np.isfinite(far).all()
    assert (far >= 0).all()
    assert (far <= 1).all() or name != "logit"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("std", [0.1, 0.8])
def test_mean_and_spread_are_those_of_draws(name, std):
    transform = TargetTransform.of((name,), np.array([[0.5], [0.9]]))
    mean = np.array([[0.7], [1.4]])
    draws = transform.undo(mean + std * np.random.default_rng(0).standard_normal((400_000, 2, 1)))
    center, spread = transform.moments(mean, np.full((2, 1), std))
    # Five standard errors of 400,000 draws, whose tails are heavy for the logarithm.
    assert_allclose(center, draws.mean(axis=0), rtol=5 * std / 600)
    assert_allclose(spread, draws.std(axis=0), rtol=0.02)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("q", [1, 2])
def test_answers_are_those_of_a_model_of_the_transform(name, q):
    X, y = positive(300, name)
    y = y if q == 1 else np.stack([y, y**2 if name == "logit" else 2 * y], axis=1)
    gp = learned(X, y, target_transform=name)
    table = y[:, None] if q == 1 else y
    transform = TargetTransform.of((name,) * q, table[:50])
    z = transform.apply(table)
    plain = learned(X, z[:, 0] if q == 1 else z)
    median, std, low, high = gp.predict(X[:20], return_std=True, return_interval=0.8)
    mean_z, std_z, low_z, high_z = (
        v.reshape(20, q) for v in plain.predict(X[:20], return_std=True, return_interval=0.8)
    )
    shape = (20,) if q == 1 else (20, 2)
    for got, wanted in ((median, mean_z), (low, low_z), (high, high_z)):
        assert_array_equal(got, transform.undo(wanted).reshape(shape))
    center, spread = transform.moments(mean_z, std_z)
    assert_array_equal(std, spread.reshape(shape))
    assert_array_equal(gp.predict(X[:20], expected=True), center.reshape(shape))
    assert_array_equal(gp.predict(X[:20]), median)
    assert gp.target_transform_ == (name,) * q


@pytest.mark.parametrize("name", ["log", "sqrt"])
def test_positive_targets_are_covered_where_they_are_large_and_no_end_is_negative(name):
    X, y = positive(900, "log")
    shares = {}
    for transform in (None, name):
        gp = learned(X[:500], y[:500], target_transform=transform)
        low, high = gp.predict(X[500:], return_interval=0.9)[1:]
        inside, top = (low <= y[500:]) & (y[500:] <= high), y[500:] > np.quantile(y[500:], 0.9)
        shares[transform] = inside[top].mean()
        if transform:
            assert (low >= 0).all()
            assert abs(inside.mean() - 0.9) < 0.06  # three standard errors and some drift of 400 rows
    assert shares[name] > shares[None]
    if name == "log":
        assert shares[name] > 0.75  # 40 rows


@pytest.mark.parametrize(("name", "batch"), [("log", 60), ("log", 1), (None, 60), ("logit", 60)])
def test_auto_finds_the_transform_and_leaves_plain_targets_alone(name, batch):
    n = 60 if batch == 1 else 120
    X, y = positive(n, name)
    gp = learned(X, y, batch, target_transform="auto")
    assert gp.target_transform_ == (name or "none",)


def test_auto_chooses_for_each_target():
    X, y = positive(200, "log")
    both = np.stack([y, np.log(y)], axis=1)
    assert chosen("auto", X, both).names == ("log", "none")
    assert chosen("auto", X, np.log(both[:, :1])) is None
    assert chosen(None, X, both) is None


@pytest.mark.parametrize(("name", "bad"), [("log", -1.0), ("sqrt", -1e-9), ("logit", -0.1), ("logit", 1.1)])
def test_a_target_out_of_range_is_refused_with_its_value_and_the_model_stays(name, bad):
    X, y = positive(120, name)
    gp = learned(X, y, target_transform=name)
    before, y[3] = gp.predict(X), bad
    with pytest.raises(InputError, match=f"target_transform='{name}'.* y reaches {bad:g}"):
        gp.partial_fit(X, y)
    assert_array_equal(gp.predict(X), before)
    with pytest.raises(InputError, match="y reaches"):
        StreamingGPRegressor(target_transform=name).fit(X, y)
    with pytest.raises(ParameterError, match="return_cov has no meaning"):
        gp.predict(X, return_cov=True)
    with pytest.raises(ParameterError, match="'log', 'sqrt', 'logit', 'auto' or None"):
        StreamingGPRegressor(target_transform="exp").fit(X, y)


def test_a_zero_is_learned_under_every_transform():
    X, y = positive(200, "logit")
    y[::20] = 0.0
    for name in NAMES:
        assert np.isfinite(learned(X, y, target_transform=name).predict(X, return_std=True)).all()


@pytest.mark.parametrize("copied", ["save", "pickle"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_copy_goes_on_with_the_same_bits(copied, dtype, tmp_path):
    X, y = (v.astype(dtype) for v in positive(240, "log"))
    gp = learned(X[:160], y[:160], target_transform="log")
    if copied == "save":
        gp.save(tmp_path / "m.gp")
    other = load(tmp_path / "m.gp") if copied == "save" else pickle.loads(pickle.dumps(gp))
    for one in (gp, other):
        one.partial_fit(X[160:], y[160:])
    found = gp.predict(X, return_std=True, return_interval=0.9)
    for a, b in zip(found, other.predict(X, return_std=True, return_interval=0.9), strict=True):
        assert a.dtype == dtype
        assert_array_equal(a, b)


def test_late_labels_are_scored_in_units_of_the_transform():
    X, y = positive(400, "log")
    gp = learned(X[:200], y[:200], target_transform="log")
    for i in range(200, 400, 20):
        gp.predict(X[i : i + 20], return_std=True)
        if i >= 240:
            gp.partial_fit(X[i - 40 : i - 20], y[i - 40 : i - 20])
    scores = gp.learner_.mixture.scores
    assert (np.asarray(scores.lags)[-60:] > 0).all()
    assert np.abs(np.asarray(scores.errors)[-60:]).mean() < 1.0


def test_answers_before_auto_has_chosen_are_not_scored_in_other_units():
    X, y = positive(150, "log")
    gp = learned(X[:20], y[:20], 1, target_transform="auto")
    gp.predict(X[20:60], return_std=True)
    gp.partial_fit(X[60:100], 1e3 * y[60:100])
    assert gp.target_transform_ == ("log",)
    gp.partial_fit(X[20:60], y[20:60])
    assert (np.asarray(gp.learner_.scores.lags) == 0).all()


def test_unlearning_merging_and_draws_take_targets_in_their_units():
    X, y = positive(300, "log")
    given = {"tune": "none", "noise": 0.1, "target_transform": "log", "members": ("gp",)}
    start = learned(X[:100], y[:100], 100, **given)
    gp, other = copy.deepcopy(start), copy.deepcopy(start)
    gp.partial_fit(X[100:140], y[100:140]).unlearn(X[100:140], y[100:140])
    assert gp.n_samples_seen_ == 100
    assert_allclose(gp.predict(X), start.predict(X), rtol=0.3)
    gp.partial_fit(X[100:200], y[100:200]).merge(other.partial_fit(X[200:], y[200:]))
    with pytest.raises(InputError, match="same target_transform"):
        gp.merge(learned(X[:100], y[:100], 100, **{**given, "target_transform": None}))
    draws = gp.sample_y(X[:5], 4000)
    assert (draws >= 0).all()
    # Medians of 4,000 draws.
    assert_allclose(np.median(draws, axis=1), gp.predict(X[:5]), rtol=0.1)


def test_what_is_not_built_for_transforms_says_so(tmp_path):
    X, y = positive(120, "log")
    gp = learned(X, y, target_transform="log")
    with pytest.raises(ParameterError, match="predict_gradient is not built for target_transform='log'"):
        gp.predict_gradient(X[:3])
    with pytest.raises(ParameterError, match="sample_function is not built"):
        gp.sample_function()
    with pytest.raises(ExportError, match="is not exported"):
        export(gp, tmp_path / "m.c")
    assert not (tmp_path / "m.c").exists()
    with pytest.raises(
        ParameterError, match="target_transform='log' and mean_function are not built together"
    ):
        StreamingGPRegressor(target_transform="log", mean_function=lambda X: X[:, 0]).fit(X, y)


def late_to_show(n=300):
    """Targets whose first 60 tell little of how they are distributed."""
    X = np.random.default_rng(0).standard_normal((n, 2))
    g = X[:, 0] + 0.4 * np.random.default_rng(1).standard_normal(n)
    g[:60] = 0.05 * g[:60] + 2
    return X, np.exp(g)


@pytest.mark.parametrize(("batch", "end"), [(20, 200), (70, 140)])
def test_auto_looks_again_while_first_rows_double_and_is_then_the_model_of_all_of_them(batch, end, tmp_path):
    X, y = late_to_show()
    gp = learned(X[: end - batch], y[: end - batch], batch, target_transform="auto")
    assert gp.target_transform_ == ("none",)
    gp.save(tmp_path / "m.gp")
    gp = load(tmp_path / "m.gp").partial_fit(X[end - batch : end], y[end - batch : end])
    assert gp.target_transform_ == ("log",)
    at_once = learned(X[:end], y[:end], end, target_transform="log")
    for answer, wanted in zip(*(m.predict(X, return_interval=0.9) for m in (gp, at_once)), strict=True):
        assert_array_equal(answer, wanted)
    assert gp.n_samples_seen_ + gp.n_refused_ == end
    assert gp.refused_.shape == (batch,)


def test_auto_gives_up_a_transform_for_targets_out_of_its_range_among_the_first_rows_alone():
    X, y = positive(900)
    gp = learned(X[:60], y[:60], target_transform="auto")
    assert gp.target_transform_ == ("log",)
    gp.partial_fit(X[60:80], -y[60:80])
    assert gp.target_transform_ == ("none",)
    assert gp.n_samples_seen_ + gp.n_refused_ == 80
    gp = learned(X, y, 300, target_transform="auto")
    with pytest.raises(InputError, match="0 or more"):
        gp.partial_fit(X[:20], -y[:20])


def test_rows_that_were_taken_away_or_merged_are_not_learned_again_by_another_choice():
    X, y = late_to_show()
    gp = learned(X[:80], y[:80], 80, target_transform="auto")
    other = copy.deepcopy(gp).partial_fit(X[80:99], y[80:99])
    gp.unlearn(X[60:80], y[60:80])
    for model, seen in ((gp, 60), (copy.deepcopy(gp).merge(other), 159)):
        model.partial_fit(X[100:300], y[100:300])
        assert model.target_transform_ == ("none",)
        assert model.n_samples_seen_ + model.n_refused_ == seen + 200


def test_missing_features_and_weights_of_first_rows_are_those_of_a_first_batch():
    X, y = late_to_show(210)
    weights = np.random.default_rng(2).uniform(0.5, 2, 210)
    X[5, 0] = X[150] = np.nan
    gp = StreamingGPRegressor(random_state=0, rank=60, neighbours=0, target_transform="auto")
    once = StreamingGPRegressor(random_state=0, rank=60, neighbours=0, target_transform="log")
    for i in (0, 105):
        gp.partial_fit(X[i : i + 105], y[i : i + 105], weights[i : i + 105])
    once.partial_fit(X, y, weights)
    assert gp.target_transform_ == ("log",)
    assert_array_equal(gp.predict(X[:20]), once.predict(X[:20]))
    assert (gp.n_empty_, gp.n_missing_.tolist()) == (once.n_empty_, once.n_missing_.tolist()) == (1, [2, 1])
