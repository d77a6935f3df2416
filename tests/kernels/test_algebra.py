"""Sums, products and scaled kernels, and the white noise in them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import kernels as sk

from streamgp import kernels as k


def test_white_noise_is_only_in_the_nugget():
    kernel = k.as_kernel(2.0 * sk.RBF(1.0) + sk.WhiteKernel(0.3)) + k.White(0.2)
    X = np.random.default_rng(3).standard_normal((12, 3))
    assert kernel.nugget == pytest.approx(0.5)
    assert kernel.without_nugget() == 2.0 * k.SquaredExponential(1.0)
    assert_allclose(kernel.block(X), 2.0 * k.SquaredExponential(1.0).block(X), rtol=1e-14)
    assert k.DistancePolynomial((0.3, 1.0)).nugget == 0.3
    assert k.DistancePolynomial((0.3, 1.0)).without_nugget().nugget == 0.0


def test_white_noise_inside_a_scaled_sum_counts():
    kernel = 2 * (k.White(0.1) + k.White(0.2)) + k.SquaredExponential(1.0)
    assert kernel.nugget == pytest.approx(0.6)
    assert kernel.without_nugget() == k.SquaredExponential(1.0)


def test_sum_of_a_list_of_kernels_is_their_sum():
    assert sum([k.Linear(), k.Constant(2.0)]) == k.Linear() + k.Constant(2.0)


def test_adding_something_that_is_not_a_kernel_is_a_type_error():
    with pytest.raises(TypeError):
        k.Linear() + "noise"
