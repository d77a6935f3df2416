"""Tails: standard deviations follow rare large errors of a stream, and no single wrong label."""

import numpy as np
import pytest

from streamgp.online.tails import FIRST_ROWS, LIMIT, Tails

RNG = np.random.default_rng(0)


def after(errors, batch=10, tails=None):
    """Return the tails after errors (n, q)."""
    tails = tails or Tails.none(errors.shape[1], 1)
    for rows in range(0, len(errors), batch):
        part = errors[rows : rows + batch, :, None] ** 2
        tails = tails.after(np.nan_to_num(part), (~np.isnan(part[:, :, 0])).sum(axis=0))
    return tails


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_errors_without_tails_are_left_as_they_are(batch):
    normal = after(RNG.standard_normal((6000, 2)), batch)
    # A normal deviate beyond five deviations comes once in 1.7 million rows.
    np.testing.assert_allclose(normal.excess, 1.0, atol=1e-12)
    np.testing.assert_array_equal(normal.limits, LIMIT)


@pytest.mark.parametrize("batch", [1, 7, 100])
@pytest.mark.parametrize("size", [12.0, 40.0])
def test_large_errors_that_come_again_and_again_are_counted_in_full(batch, size):
    errors = RNG.standard_normal((12000, 1))
    errors[::97] = size
    tails = after(errors, batch)
    # Decayed means of 1,000 rows hold ten such errors: a standard deviation of a third.
    assert tails.whole[0, 0] == pytest.approx((errors**2).mean(), rel=0.5)
    assert tails.excess[0, 0] > 1.3


@pytest.mark.parametrize("size", [1e2, 1e6, 1e150])
def test_one_wrong_label_hardly_matters(size):
    errors = RNG.standard_normal((3000, 1))
    errors[2000] = size
    tails = after(errors[:2001])
    assert tails.excess[0, 0] < 1.02
    assert after(errors[2001:], tails=tails).excess[0, 0] < 1.02


@pytest.mark.parametrize("batch", [1, 30])
def test_a_storm_counts_once_however_long_it_is(batch):
    errors = RNG.standard_normal((2000, 1))
    errors[1500:1600] = 20.0
    assert after(errors[:1620], batch).limits[0, 0] < 2 * LIMIT


def test_the_first_rows_do_not_raise_the_limit():
    errors = np.full((FIRST_ROWS, 1), 1.0)
    errors[::50] = 100.0
    np.testing.assert_array_equal(after(errors).limits, LIMIT)


def test_outputs_and_missing_labels_are_apart():
    errors = RNG.standard_normal((8000, 2))
    errors[::97, 0] = 40.0
    errors[::3, 1] = np.nan
    excess = after(errors).excess[:, 0]
    assert excess[0] > 3
    assert excess[1] == pytest.approx(1.0, abs=1e-12)
