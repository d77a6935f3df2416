"""The bytes that a model holds are counted once each."""

import numpy as np

from experiments.checks.flat import held


def test_all_that_is_referred_to_is_counted_once():
    x = np.zeros(1000)
    assert held([x, (x[10:20], {"again": x}), x.reshape(10, 100), np.zeros(3)]) == 8024
