"""Bad labels must not spoil the model, and what is no error must be learned."""

import numpy as np
import pytest

import streamgp
from streamgp import StreamingGPRegressor
from streamgp.errors import InputError
from streamgp.online.suspects import ABSURD, ENOUGH, REMEMBERED, WINDOW, absurd, believed
from streamgp.parameters import used_by

NOISE = 0.1


def wavy(n, seed=0, noise="normal"):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    error = rng.standard_normal(n) if noise == "normal" else rng.standard_t(noise, n)
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + NOISE * error


def taught(X, y, batch, method="pivoted", **given):
    gp = StreamingGPRegressor(**used_by(method, rank=60), random_state=0, **given)
    for i in range(0, len(y), batch):
        gp.partial_fit(X[i : i + batch], y[i : i + batch])
    return gp


def error_and_coverage(gp):
    X, y = wavy(1000, seed=99)
    mean, low, high = gp.predict(X, return_interval=0.9)
    return np.sqrt(np.mean((mean - y) ** 2)), np.mean((low <= y) & (y <= high))


@pytest.mark.parametrize(
    ("method", "n", "batch"),
    [
        ("pivoted", 2000, 2000), ("pivoted", 2000, 20), ("pivoted", 2000, 500), ("pivoted", 200, 1),
        ("pivoted", 60, 60), ("nrmf", 300, 300), ("nrmf", 300, 20), ("srmf", 300, 50), ("brmf", 300, 300),
        ("rgp", 300, 20),
    ],
)  # fmt: skip
@pytest.mark.parametrize("deviations", [1e2, 1e3, 1e6])
def test_one_bad_label_costs_nothing(method, n, batch, deviations):
    X, y = wavy(n, seed=n)
    best, _ = error_and_coverage(taught(X, y, batch, method))
    y[n // 2] -= deviations * NOISE
    gp = taught(X, y, batch, method)
    error, coverage = error_and_coverage(gp)
    assert error < 1.1 * best
    assert 0.85 < coverage < (0.95 if n > 100 else 0.99)
    assert gp.n_refused_ == 1
    assert gp.n_samples_seen_ == n - 1
    bare, _ = error_and_coverage(taught(X, y, batch, method, guard=None, forgetting=1.0))
    assert bare > (1.5 if deviations > 1e2 else 1.0) * best


@pytest.mark.parametrize("batch", [20, 100, 1000])
@pytest.mark.parametrize("where", ["some", "first", "burst"])
def test_several_bad_labels_cost_nothing_wherever_they_are(batch, where):
    X, y = wavy(1000, seed=4)
    best, _ = error_and_coverage(taught(X, y, batch))
    rng = np.random.default_rng(7)
    at = {"some": rng.permutation(1000)[:10], "first": [2, 11, 30], "burst": [500, 501, 502]}[where]
    y[at] += rng.choice([-1.0, 1.0], len(at)) * NOISE * 10 ** rng.uniform(2, 6, len(at))
    gp = taught(X, y, batch)
    assert gp.n_refused_ == len(at)
    error, coverage = error_and_coverage(gp)
    assert error < 1.1 * best
    assert 0.85 < coverage < 0.95


@pytest.mark.parametrize("batch", [10, 400])
def test_a_bad_label_of_one_output_does_not_reach_the_other(batch):
    X, y = wavy(400, seed=8)
    both = np.stack([y, 1e3 * np.cos(X[:, 0]) + np.random.default_rng(0).standard_normal(400)], axis=1)
    clean = taught(X, both, batch).predict(X)
    both[200, 1] -= 1e6
    gp = taught(X, both, batch)
    assert gp.n_refused_ == 1
    assert (np.abs(gp.predict(X) - clean) < NOISE * np.array([1.0, 1e3])).all()


@pytest.mark.parametrize("batch", [20, 300])
def test_an_absurd_input_among_the_first_rows_does_not_set_the_units(batch):
    X, y = wavy(300, seed=2)
    best, _ = error_and_coverage(taught(X, y, batch))
    X[3, 1], X[150, 0] = 1e9, -1e9
    gp = taught(X, y, batch)
    assert gp.n_refused_ == 2
    assert error_and_coverage(gp)[0] < 1.1 * best


@pytest.mark.parametrize("batch", [1, 17, 300])
@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e60])
def test_ordinary_rows_are_learned_as_without_a_guard(batch, scale):
    X, y = wavy(300, seed=3)
    gp, bare = (taught(X * scale, y * scale, batch, guard=g) for g in ("auto", None))
    assert gp.n_refused_ == 0
    np.testing.assert_array_equal(gp.predict(X * scale), bare.predict(X * scale))


@pytest.mark.parametrize("freedom", [2, 3])
@pytest.mark.parametrize("batch", [50, 1500])
def test_heavy_tails_are_learned_but_for_a_few_rows_in_a_thousand(freedom, batch):
    X, y = wavy(1500, seed=5, noise=freedom)
    function = np.sin(2 * X[:, 0]) + X[:, 1]
    gp, bare = (taught(X, y, batch, guard=g) for g in ("auto", None))
    assert gp.n_refused_ <= 0.005 * len(y)
    error, other = (np.mean((g.predict(X) - function) ** 2) for g in (gp, bare))
    assert error < 1.04 * other


@pytest.mark.parametrize("batch", [1, 7, 50])
@pytest.mark.parametrize("jump", [10.0, 1e3, 1e6])
def test_a_level_that_jumps_is_learned_from_its_first_row_on(batch, jump):
    X, y = wavy(500, seed=6)
    y[400:] += jump * NOISE
    gp = taught(X, y, batch)
    assert gp.n_refused_ == 0
    assert gp.n_samples_seen_ == 500


def test_suspects_are_held_back_until_half_of_a_window_are_suspect():
    X, y = wavy(430, seed=6)
    y[400:] += 100.0
    gp = taught(X[:400], y[:400], 40)
    held = [gp.partial_fit(X[i : i + 1], y[i : i + 1]).n_refused_ for i in range(400, 430)]
    assert held[: WINDOW // 2 - 1] == list(range(1, WINDOW // 2))
    assert held[WINDOW // 2 - 1 :] == [0] * (31 - WINDOW // 2)


def test_held_back_rows_survive_a_checkpoint(tmp_path):
    X, y = wavy(430, seed=6)
    y[400:] += 100.0
    gp = taught(X[:405], y[:405], 27)
    assert gp.n_refused_ == 5
    gp.save(tmp_path / "m.gp")
    again = streamgp.load(tmp_path / "m.gp")
    for model in (gp, again):
        model.partial_fit(X[405:420], y[405:420])
    assert gp.n_refused_ == again.n_refused_ == 0
    np.testing.assert_array_equal(gp.predict(X), again.predict(X))


def test_a_row_that_was_refused_cannot_be_unlearned():
    X, y = wavy(300, seed=1)
    y[120] = 1e4
    gp = taught(X, y, 50)
    before = gp.predict(X)
    with pytest.raises(InputError, match="row 1 was refused by the guard"):
        gp.unlearn(X[119:121], y[119:121])
    np.testing.assert_array_equal(gp.predict(X), before)
    gp.unlearn(X[119:120], y[119:120])


def test_fewer_rows_than_can_be_judged_are_all_learned():
    X, y = wavy(19, seed=1)
    y[7] = 1e6
    gp = taught(X, y, 5)
    assert gp.n_refused_ == 0
    # Judged as soon as that is possible, however early the bad row came.
    assert gp.partial_fit(*wavy(30, seed=2)).n_refused_ == 1
    assert not gp.refused_.any()
    assert gp.n_samples_seen_ == 48


def test_rare_suspects_are_refused_and_common_ones_believed():
    rows = np.zeros(3 * REMEMBERED, dtype=bool)
    rows[[100, 101, 102, 700, 1900]] = True
    assert list(np.flatnonzero(~believed(rows))) == [100, 101, 102, 700, 1900]
    rows[2000::40] = True  # one in forty
    refused = np.flatnonzero(~believed(rows))
    assert refused.max() < 2000 + REMEMBERED
    crowd = np.zeros(200, dtype=bool)
    crowd[50 : 50 + WINDOW // 2] = True
    assert believed(crowd)[: 50 + WINDOW // 2].all() or WINDOW // 2 < ENOUGH
    crowd[:50] = False
    assert believed(crowd).all()


def test_values_are_absurd_by_the_distances_of_the_others():
    rng = np.random.default_rng(0)
    values = rng.standard_cauchy((2000, 2))
    assert absurd(values, ABSURD).mean() < 0.005
    values[7, 1] = 1e30
    assert absurd(values, ABSURD)[7]
    # A feature that is mostly zero may take any other value.
    sparse = np.zeros((200, 1))
    sparse[3] = 1e9
    assert not absurd(sparse, ABSURD).any()
    # Two groups are no error, however far apart.
    assert not absurd(np.where(np.arange(200) < 30, 1e9, rng.standard_normal(200))[:, None], ABSURD).any()
