"""The mixture of the panel: law 13 and its sister, what is scored, and that the Gaussian process alone is as it was."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from streamgp import StreamingGPRegressor, load
from streamgp.online import exponential
from streamgp.online import mixture as mixtures
from streamgp.online.calibration import Scores
from streamgp.online.mixture import ETA, LARGEST, TEMPER, Mixture

NAMES = ("gp", "ridge", "ridge_recent", "level")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((1500, 4))
LINEAR = X @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.3 * RNG.standard_normal(1500)


def blank(q=1):
    scores = Scores.none(4, q, np.zeros((1, q)))
    return Mixture.begun(NAMES, X[:10], np.zeros((10, q)), scores)


def follow(gp, X, y, batch=25):
    for i in range(0, len(y), batch):
        if i:
            gp.predict(X[i : i + batch], return_std=True)
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    return gp


def rmse(given, X, y, batch=25):
    gp, errors = StreamingGPRegressor(rank=60, random_state=0, **given), []
    for i in range(0, len(y), batch):
        if i:
            errors.append(gp.predict(X[i : i + batch]) - y[i : i + batch])
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    return float(np.sqrt(np.mean(np.concatenate(errors)[200:] ** 2)))


# Laws


@pytest.mark.parametrize("scale", [1.0, 0.2])
@pytest.mark.parametrize("q", [1, 2])
def test_the_squared_error_of_the_mixture_exceeds_that_of_its_best_member_by_little(monkeypatch, scale, q):
    # Without sharing, and with a typical error that stays: at most 2s² ln(1/prior)/η, whatever the errors are.
    monkeypatch.setattr(exponential, "SHARE", 0.0)
    monkeypatch.setattr(mixtures, "MEMORY", 1e300)
    m, typical = blank(q), scale**2
    m = mixtures.replace(m, squares=np.full((4, q), typical), count=np.full(q, 1e300))
    means = scale * (RNG.standard_normal((400, 4, q)) + np.array([0.0, 2.0, 1.0, 2.0])[:, None])
    targets = scale * RNG.standard_normal((400, q))
    errors = np.clip(targets[:, None] - means, -np.sqrt(LARGEST) * scale, np.sqrt(LARGEST) * scale)
    mixed = np.zeros(q)
    for e in errors:
        mixed += np.einsum("kq,kq->q", m.weights, e) ** 2
        m = m._judged(e[None], np.ones((1, 4, q)))
    prior = np.exp(exponential.first_weights(NAMES, q))
    bound = (errors**2).sum(axis=0) + 2.0 * typical / ETA * np.log(1.0 / prior)
    assert (mixed <= bound.min(axis=0) * (1 + 1e-9)).all()


def test_the_log_loss_of_the_mixture_exceeds_that_of_its_best_member_by_little(monkeypatch):
    # Law 13, for weights that are tempered by τ: at most ln(1/prior)/τ.
    monkeypatch.setattr(exponential, "SHARE", 0.0)
    monkeypatch.setattr(mixtures, "MEMORY", 1e300)
    m = mixtures.replace(blank(), count=np.full(1, 1e300))
    deviations = np.array([1.0, 0.5, 2.0, 1.2])
    lost, each = 0.0, np.zeros(4)
    for e in np.clip(RNG.standard_normal((400, 4)), -2.4, 2.4) * np.array([1.0, 1.0, 1.0, 0.9]):
        density = np.exp(-0.5 * (e / deviations) ** 2) / deviations
        lost -= np.log(np.exp(m.by_density[:, 0]) @ density)
        each -= np.log(density)
        m = m._judged(e[None, :, None], (deviations**2)[None, :, None])
    bound = each - exponential.first_weights(NAMES, 1)[:, 0] / TEMPER
    assert lost <= bound.min() * (1 + 1e-9)


def test_a_member_that_becomes_the_best_gets_the_weight_within_some_hundred_rows():
    m = blank()
    for row in range(1200):
        e = np.array([1.0, 3.0, 3.0, 3.0]) if row < 600 else np.array([3.0, 3.0, 1.0, 3.0])
        m = m._judged((e * RNG.choice([-1.0, 1.0]))[None, :, None], np.ones((1, 4, 1)))
        if row == 599:
            assert m.weights[0, 0] > 0.9
    assert m.weights[2, 0] > 0.8


def test_one_outlier_does_not_move_the_weights():
    m = blank()
    for _ in range(300):
        m = m._judged(RNG.standard_normal((1, 4, 1)), np.ones((1, 4, 1)))
    after = m._judged(np.array([1e6, 1.1e6, 0.9e6, 1e6])[None, :, None], np.ones((1, 4, 1)))
    assert_allclose(after.weights, m.weights, atol=0.01)
    assert (after.ratios < 1.5 * m.ratios).all()


# What it is good for


def test_on_a_linear_stream_the_panel_is_at_least_as_good_as_the_gaussian_process():
    plain = rmse({"members": ("gp",)}, X, LINEAR)
    assert rmse({}, X, LINEAR) < 1.005 * plain


def test_on_a_function_that_is_not_linear_the_panel_costs_next_to_nothing():
    y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.05 * RNG.standard_normal(1500)
    assert rmse({}, X, y) < 1.01 * rmse({"members": ("gp",)}, X, y)


def test_weights_are_of_each_output():
    curved = np.sin(3 * X[:, 0]) + 0.05 * RNG.standard_normal(1500)
    walk = np.cumsum(RNG.standard_normal(1500))
    gp = follow(StreamingGPRegressor(rank=60, random_state=0), X, np.column_stack([curved, walk]), batch=1)
    assert gp.members_["gp"][0] + gp.members_["neighbours"][0] > 0.9
    assert gp.members_["level"][1] > 0.9
    assert_allclose(sum(gp.members_.values()), 1.0, rtol=1e-9)


def test_labels_that_are_missing_are_not_scored_and_the_others_are():
    Y = np.column_stack([LINEAR, -LINEAR])
    Y[500:700, 1] = np.nan
    gp = follow(StreamingGPRegressor(rank=60, random_state=0), X[:900], Y[:900])
    mean, low, high = gp.predict(X[900:], return_interval=0.9)
    error = mean - np.column_stack([LINEAR, -LINEAR])[900:]
    assert (np.sqrt(np.mean(error**2, axis=0)) < 0.36).all()
    inside = (low <= mean - error) & (mean - error <= high)
    assert (inside.mean(axis=0) > 0.85).all()


# What is scored, and kept


def test_what_was_answered_is_scored_and_not_what_a_member_knows_by_now():
    walk = 0.5 * np.cumsum(np.random.default_rng(1).standard_normal(1200))

    def late(delay):
        gp = StreamingGPRegressor(rank=40, random_state=0).partial_fit(X[:50], walk[:50])
        for i in range(50, 1200):
            gp.predict(X[i : i + 1], return_std=True)
            if i - delay >= 50:
                gp.partial_fit(X[i - delay : i - delay + 1], walk[i - delay : i - delay + 1])
        return gp.learner_.mixture.squares[-1, 0] * gp.y_scale_[0] ** 2

    # A level that is 48 rows old is off by the square root of 48 steps.
    assert late(48) > 20 * late(0)


def test_the_gaussian_process_alone_is_as_it_was_and_others_are_named():
    y = LINEAR[:400]
    alone = follow(StreamingGPRegressor(rank=40, random_state=0, members=("gp",)), X[:400], y)
    learner = alone.learner_
    assert learner.mixture is None
    assert alone.members_ == {"gp": 1.0}
    found = learner.targets.undo_mean(learner.state.predict(X[400:450]).mean)
    assert (alone.predict(X[400:450]) == found).all()
    panel = follow(StreamingGPRegressor(rank=40, random_state=0), X[:400], y)
    for asked in ({"return_cov": True}, {"return_std": True, "latent": True}):
        for mine, theirs in zip(
            panel.predict(X[400:450], **asked), alone.predict(X[400:450], **asked), strict=True
        ):
            assert_allclose(mine, theirs, rtol=1e-12)
    assert panel.log_evidence() == alone.log_evidence()
    some = StreamingGPRegressor(rank=40, random_state=0, members=("gp", "level")).fit(X[:100], y[:100])
    assert set(some.members_) == {"gp", "level"}


def test_a_model_that_was_saved_goes_on_as_if_it_had_not_been(tmp_path):
    gp = follow(StreamingGPRegressor(rank=40, random_state=0), X[:500], LINEAR[:500])
    gp.save(tmp_path / "model")
    twin = load(tmp_path / "model")
    for model in (gp, twin):
        follow(model, X[500:700], LINEAR[500:700])
    assert (gp.predict(X[700:], return_std=True)[1] == twin.predict(X[700:], return_std=True)[1]).all()
    assert gp.members_ == twin.members_
