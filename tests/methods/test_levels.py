"""Laws of levels: a target that jumps is followed, and what was learned of the function is kept."""

import numpy as np
import pytest

from streamgp import StreamingGPRegressor, load
from streamgp.datasets import load_arm

ROWS = 2000


def plane(n=ROWS + 600, q=None):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    y = y if q is None else np.column_stack([y, np.cos(X[:, 0]) + 2 * X[:, 1]])
    return X, y + 0.1 * rng.standard_normal(y.shape)


def answered(gp, X, y, batch):
    """Learn the first rows, then predict and learn batch after batch; return errors and what was inside."""
    gp.partial_fit(X[:500], y[:500])
    errors, inside = [], []
    for i in range(500, len(X), batch):
        rows = slice(i, i + batch)
        mean, low, high = gp.predict(X[rows], return_interval=0.9)
        errors.append(mean - y[rows])
        inside.append((low <= y[rows]) & (y[rows] <= high))
        gp.partial_fit(X[rows], y[rows])
    return np.concatenate(errors), np.concatenate(inside)


@pytest.mark.parametrize(("jump", "batch"), [(1.0, 20), (-10.0, 1), (10.0, 100), (1e5, 20)])
def test_a_level_that_jumps_is_learned_within_100_rows(jump, batch):
    X, y = plane()
    y[ROWS:] += jump
    errors, inside = answered(StreamingGPRegressor(rank=60, random_state=0), X, y, batch)
    after = slice(ROWS - 500 + 100, None)
    assert np.sqrt(np.mean(errors[after] ** 2)) < 0.13  # the noise is 0.1, and 0.105 without a jump
    assert 0.85 < inside[after].mean() < 0.95


def test_an_output_jumps_alone_and_a_saved_model_goes_on(tmp_path):
    X, y = plane(q=2)
    y[ROWS:, 1] += 20.0
    gp = StreamingGPRegressor(rank=60, random_state=0)
    answered(gp, X[: ROWS + 100], y[: ROWS + 100], 50)
    jumps = gp.learner_.state.adaptation.jumps
    assert jumps[0] == 0
    assert jumps[1] > 0
    gp.save(tmp_path / "model")
    again = load(tmp_path / "model").partial_fit(X[ROWS + 100 :], y[ROWS + 100 :])
    gp.partial_fit(X[ROWS + 100 :], y[ROWS + 100 :])
    np.testing.assert_array_equal(gp.predict(X[:50]), again.predict(X[:50]))
    assert np.sqrt(np.mean((gp.predict(X[ROWS:]) - y[ROWS:]) ** 2)) < 0.13


def test_a_jump_that_is_undone_is_followed_back_and_then_no_more():
    X, y = plane(ROWS + 1500)
    y[ROWS : ROWS + 400] += 5.0
    y[ROWS + 800 :] += 5.0
    gp = StreamingGPRegressor(rank=60, random_state=0)
    errors, _ = answered(gp, X[: ROWS + 800], y[: ROWS + 800], 20)
    assert np.sqrt(np.mean(errors[-300:] ** 2)) < 0.13
    assert np.isinf(gp.learner_.state.adaptation.jumps).all()
    for i in range(ROWS + 800, ROWS + 1500, 20):
        gp.partial_fit(X[i : i + 20], y[i : i + 20])
    assert np.isinf(gp.learner_.state.adaptation.jumps).all()
    # The past was given up instead.
    assert np.sqrt(np.mean((gp.predict(X[-300:]) - y[-300:]) ** 2)) < 0.2


def test_rows_near_each_other_in_a_new_place_are_no_jump():
    """The function there is not known; its neighbours tell as much as a jump would."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (1200, 2))
    X[1100:] = [6.0, 6.0] + 0.05 * rng.standard_normal((100, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.1 * rng.standard_normal(1200)
    gp = StreamingGPRegressor(rank=60, random_state=0)
    errors, _ = answered(gp, X, y, 20)
    assert gp.learner_.state.adaptation.jumps is None
    assert np.sqrt(np.mean(errors[-60:] ** 2)) < 0.5


def test_an_arm_whose_inputs_move_slowly_loses_nothing():
    arm = load_arm(1500)
    errors, _ = answered(StreamingGPRegressor(rank=100, random_state=0), arm.X, arm.y[:, 0], 50)
    plain, _ = answered(
        StreamingGPRegressor(rank=100, random_state=0, forgetting=1.0), arm.X, arm.y[:, 0], 50
    )
    assert np.sqrt(np.mean(errors**2)) < 1.1 * np.sqrt(np.mean(plain**2))


def test_a_jump_in_the_batch_of_a_tuning_is_followed_and_not_tuned_on():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (2000, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(2000)
    y[1500:] += 1.0
    gp, errors = StreamingGPRegressor(rank=200, random_state=0), []
    for i in range(0, 2000, 100):  # tunings after 100, 200, 400, 800 and 1600 rows
        errors.append(gp.predict(X[i : i + 100]) - y[i : i + 100] if i else np.zeros(100))
        gp.partial_fit(X[i : i + 100], y[i : i + 100])
    assert np.sqrt(np.mean(np.concatenate(errors)[1600:1800] ** 2)) < 0.13
