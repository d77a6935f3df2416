"""Conversion of scikit-learn's kernels."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import kernels as sk

from streamgp import kernels as k
from streamgp.errors import KernelError


def inputs(n=12, m=9, d=3, seed=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((m, d))


SKLEARN = {
    "rbf": sk.RBF(0.7),
    "rbf, per feature": 1.5 * sk.RBF([0.7, 2.0, 1.1]),
    "matern 1/2": sk.Matern(0.7, nu=0.5),
    "matern 3/2": sk.Matern([0.7, 2.0, 1.1], nu=1.5),
    "matern 5/2": sk.Matern(0.7, nu=2.5),
    "matern infinity": sk.Matern(0.7, nu=math.inf),
    "rational quadratic": sk.RationalQuadratic(0.8, 1.4),
    "dot product": sk.DotProduct(0.6),
    "dot product through the origin": sk.DotProduct(0.0),
    "power": sk.DotProduct(0.6) ** 2,
    "sum and product": sk.ConstantKernel(2.0) * sk.RBF(1.0) * sk.Matern(1.2, nu=1.5) + sk.ConstantKernel(0.5),
}


@pytest.mark.parametrize("theirs", SKLEARN.values(), ids=SKLEARN.keys())
def test_scikit_learns_kernels_are_converted_exactly(theirs):
    X, Y = inputs()
    ours = k.as_kernel(theirs)
    assert_allclose(ours.block(X, Y), theirs(X, Y), rtol=1e-11, atol=1e-13)
    assert_allclose(ours.diag(X), theirs.diag(X), rtol=1e-12)


def test_scikit_learns_periodic_kernel_is_converted_for_one_feature_and_refused_for_more():
    ours = k.as_kernel(sk.ExpSineSquared(0.8, 1.7))
    x, y = inputs(d=1)
    assert_allclose(ours.block(x, y), sk.ExpSineSquared(0.8, 1.7)(x, y), rtol=1e-10)
    with pytest.raises(KernelError, match="1 values of length_scale, the data has 2 features"):
        ours.check_features(2)
