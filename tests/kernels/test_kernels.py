"""Laws of every kernel."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.gaussian_process import kernels as sk

from conftest import tolerance
from streamgp import kernels as k
from streamgp.errors import InputError, KernelError

KERNELS = {
    "squared exponential": k.SquaredExponential(0.7),
    "squared exponential, per feature": k.SquaredExponential([0.7, 2.0, 1.1]),
    "matern 1/2": k.Matern([0.7, 2.0, 1.1], 0.5),
    "matern 3/2": k.Matern(0.9, 1.5),
    "matern 5/2": k.Matern([0.7, 2.0, 1.1], 2.5),
    "rational quadratic": k.RationalQuadratic([0.7, 2.0, 1.1], 0.6),
    "periodic": k.Periodic([0.7, 2.0, 1.1], [1.3, 0.9, 2.2]),
    "periodic, shared": k.Periodic(0.8, 1.7),
    "linear": k.Linear([0.7, 2.0, 1.1]),
    "constant": k.Constant(1.3),
    "distance polynomial": k.DistancePolynomial((0.0, 0.5, 0.2, 0.1)),
    "distance polynomial with a gap": k.DistancePolynomial((0.3, 0.0, 0.2)),
    "brownian polynomial": k.BrownianPolynomial((0.0, 0.5, 0.2), origin=(0.1, -0.2, 0.3)),
    "scaled": 2.5 * k.Matern(0.9, 1.5),
    "sum": 2.5 * k.SquaredExponential(0.7) + k.Linear(1.5) + 0.3,
    "product": k.Linear(1.2) * k.SquaredExponential([0.7, 2.0, 1.1]) * k.Periodic(1.0, 2.0),
    "nested": 0.5 * (k.Linear(1.2) + 2.0 * k.Matern(1.0)) * k.RationalQuadratic(0.8, 2.0),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())


def inputs(n=12, m=9, d=3, seed=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((m, d))


@every_kernel
def test_diag_is_the_diagonal_of_the_block(kernel):
    X, _ = inputs()
    assert_allclose(kernel.diag(X), np.diag(kernel.block(X)), rtol=tolerance(float, 100), atol=1e-14)
    assert kernel.trace(X) == pytest.approx(kernel.diag(X).sum(), rel=tolerance(float, 100))
    if kernel.prior_variance is not None:
        assert_allclose(kernel.diag(X), kernel.prior_variance, rtol=tolerance(float, 1))


@every_kernel
def test_a_block_with_itself_equals_the_block_with_a_copy(kernel):
    X, _ = inputs()
    assert_allclose(kernel.block(X), kernel.block(X, X.copy()), rtol=1e-12, atol=1e-12)


@every_kernel
def test_exchanging_the_two_sets_transposes_the_block(kernel):
    X, Y = inputs()
    assert_allclose(kernel.block(X, Y), kernel.block(Y, X).T, rtol=1e-12, atol=1e-13)


@every_kernel
def test_blocks_are_positive_semidefinite_exactly_if_the_kernel_says_so(kernel):
    X, _ = inputs(40)
    values = np.linalg.eigvalsh(kernel.block(X))
    assert (values.min() > -1e-12 * values.max()) == kernel.positive_semidefinite


@every_kernel
@pytest.mark.parametrize("with_itself", [False, True])
def test_gradient_equals_central_differences(kernel, with_itself):
    X, Y = inputs()
    Y = None if with_itself else Y
    W = np.random.default_rng(5).standard_normal((12, 12 if with_itself else 9))
    step = 1e-6
    numeric = []
    for i in range(kernel.theta.size):
        shift = np.zeros(kernel.theta.size)
        shift[i] = step
        above, below = (kernel.with_theta(kernel.theta + s).block(X, Y) for s in (shift, -shift))
        numeric.append(((above - below) * W).sum() / (2 * step))
    # Differences of step h are good to h² plus eps/h.
    assert_allclose(kernel.gradient(W, X, Y), numeric, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("family", [k.SquaredExponential, k.Matern, k.Periodic, k.Linear])
@pytest.mark.parametrize("values", [(1.0,), (1.0, 2.0)])
def test_inputs_with_another_number_of_features_are_refused(family, values):
    X, _ = inputs(d=3)
    with pytest.raises(KernelError, match="3 features"):
        family(values).block(X)


@every_kernel
def test_with_theta_of_its_own_theta_is_the_same_kernel(kernel):
    again = kernel.with_theta(kernel.theta)
    X, Y = inputs()
    assert_allclose(again.block(X, Y), kernel.block(X, Y), rtol=1e-12)
    assert type(again) is type(kernel)
    moved = kernel.with_theta(kernel.theta + 0.1)
    assert_allclose(moved.theta, kernel.theta + 0.1, rtol=1e-12)


@every_kernel
def test_single_precision_agrees_with_double(kernel):
    X, Y = inputs()
    single = kernel.block(X.astype(np.float32), Y.astype(np.float32))
    assert single.dtype == np.float32
    exact = kernel.block(X, Y)
    assert_allclose(single, exact, atol=tolerance(np.float32, 200) * np.abs(exact).max())


@every_kernel
def test_array_libraries_agree(kernel, library):
    X, Y = inputs()
    ours = library.to_numpy(kernel.block(library.asarray(X), library.asarray(Y)))
    assert_allclose(ours, kernel.block(X, Y), rtol=1e-12, atol=1e-12)
    own = library.to_numpy(kernel.block(library.asarray(X)))
    assert_allclose(own, kernel.block(X), rtol=1e-12, atol=1e-12)
    W = np.ones((12, 9))
    gradient = kernel.gradient(library.asarray(W), library.asarray(X), library.asarray(Y))
    assert_allclose(gradient, kernel.gradient(W, X, Y), rtol=1e-10, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.floats(-140, 140), st.sampled_from(sorted(KERNELS)), st.integers(0, 10**6))
def test_blocks_are_finite_at_any_scale_of_the_inputs(d, exponent, name, seed):
    kernel = KERNELS[name]
    if d != 3 and name not in (
        "squared exponential",
        "matern 3/2",
        "periodic, shared",
        "scaled",
        "sum",
        "nested",
    ):
        d = 3
    X = np.random.default_rng(seed).standard_normal((7, d)) * 10.0**exponent
    try:
        block = kernel.block(X, X[::-1].copy())
    except InputError as error:
        assert "squared distance" in str(error)  # noqa: PT017
        return
    if not isinstance(
        kernel, k.DistancePolynomial | k.BrownianPolynomial
    ):  # cubes leave the range by themselves
        assert np.isfinite(block).all()


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: k.SquaredExponential(-1.0), "length_scale=-1.0 must be positive"),
        (lambda: k.SquaredExponential([1.0, 0.0]), "must be positive"),
        (lambda: k.SquaredExponential("long"), "is not a number"),
        (lambda: k.SquaredExponential(math.nan), "must be positive and finite"),
        (lambda: k.Matern(1.0, 2.0), "nu=2.0 must be 0.5, 1.5 or 2.5"),
        (lambda: k.RationalQuadratic(1.0, -2.0), "positive"),
        (lambda: k.Periodic(1.0, 0.0), "period=0.0 must be positive"),
        (lambda: k.DistancePolynomial((1.0, -0.5)), "none below 0"),
        (lambda: k.DistancePolynomial((1.0,)), "two or more"),
        (lambda: k.BrownianPolynomial((0.0, 1.0), origin=(math.inf,)), "origin"),
        (lambda: k.Linear() * (k.Constant() + k.White(0.1)), "white noise is not supported"),
        (lambda: -1.0 * k.Linear(), "positive"),
        (lambda: k.SquaredExponential(1.0).with_theta(np.zeros(2)), "must be 1 finite numbers"),
        (
            lambda: k.SquaredExponential([1.0, 2.0]).check_features(3),
            "2 values of length_scale, the data has 3",
        ),
        (lambda: k.as_kernel("rbf"), "kernel='rbf' is a str"),
        (lambda: k.as_kernel(k.Linear), "is a class; use an object"),
        (lambda: k.as_kernel(sk.RBF), "is a class; use an object"),
        (lambda: k.as_kernel(sk.PairwiseKernel()), "cannot read"),
    ],
)
def test_an_invalid_kernel_is_refused_with_the_reason(build, words):
    with pytest.raises(KernelError, match=words):
        build()
