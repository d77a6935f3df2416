"""Accuracy of distances: far from the origin, between close points, beside an outlier."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import tolerance
from streamgp import kernels as k


@pytest.mark.parametrize(
    "kernel", [k.SquaredExponential(1.0), k.Matern(1.0, 0.5), k.Matern(1.0, 2.5)], ids=str
)
@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
def test_blocks_far_from_the_origin_are_as_accurate_as_near_it(kernel, offset):
    # Steps of 1/8 are exact beside every offset here, so the two blocks see the same differences.
    X = np.arange(40).reshape(20, 2) / 8
    far = np.concatenate([X, [[-offset, 0.0]]])
    assert_allclose(kernel.block(X + offset, far + offset)[:, :20], kernel.block(X), rtol=1e-9, atol=1e-9)


def test_distances_of_close_points_are_accurate():
    x = np.array([[1.0, 2.0, 3.0]])
    near = x + np.array([[3e-9, 0.0, 0.0]])
    D = k.DistancePolynomial((0.0, 1.0)).block(np.concatenate([x, near]), np.concatenate([near, -x]))
    # Moving the origin rounds each coordinate once; a product alone would leave √eps·‖x‖, 5e-8.
    assert_allclose(D[0, 0], (near - x)[0, 0], atol=tolerance(float, 4))
    assert D[1, 0] == 0.0


def test_distances_beside_an_outlier_are_accurate():
    X = np.random.default_rng(0).standard_normal((300, 5))
    X[0] += 1e4
    D = k.DistancePolynomial((0.0, 1.0)).block(X)
    assert_allclose(D, np.linalg.norm(X[:, None] - X[None], axis=2), rtol=1e-9, atol=1e-9)
