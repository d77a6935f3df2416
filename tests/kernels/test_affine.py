"""Kernels that are affine in their weights."""

import numpy as np
import pytest

from streamgp import kernels
from streamgp.errors import KernelError

PARTS = (kernels.SquaredExponential(0.5), kernels.Matern(2.0), kernels.Linear(1.3))


@pytest.mark.parametrize(
    "weights", [(-1.0, 1.0, 1.0), (0.0, 0.0, 0.0), (1.0, 1.0), "abc", (np.nan, 1.0, 1.0)]
)
def test_weights_that_are_not_weights_are_refused(weights):
    with pytest.raises(KernelError):
        kernels.WeightedSum(PARTS, weights)
