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


@every_kernel
def test_a_block_with_itself_equals_the_block_with_a_copy(kernel):
    X, _ = inputs()
    assert_allclose(kernel.block(X), kernel.block(X, X.copy()), rtol=1e-12, atol=1e-12)


@every_kernel
def test_rows_and_columns_exchange(kernel):
    X, Y = inputs()
    assert_allclose(kernel.block(X, Y), kernel.block(Y, X).T, rtol=1e-12, atol=1e-13)


@every_kernel
def test_matrices_are_positive_semidefinite_exactly_where_the_kernel_says_so(kernel):
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


@every_kernel
def test_theta_makes_the_kernel_again(kernel):
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
def test_scikit_learns_kernels_are_read_as_they_are(theirs):
    X, Y = inputs()
    ours = k.as_kernel(theirs)
    assert_allclose(ours.block(X, Y), theirs(X, Y), rtol=1e-11, atol=1e-13)
    assert_allclose(ours.diag(X), theirs.diag(X), rtol=1e-12)


def test_scikit_learns_periodic_kernel_is_read_for_one_feature_and_refused_for_more():
    ours = k.as_kernel(sk.ExpSineSquared(0.8, 1.7))
    x, y = inputs(d=1)
    assert_allclose(ours.block(x, y), sk.ExpSineSquared(0.8, 1.7)(x, y), rtol=1e-10)
    with pytest.raises(KernelError, match="1 values of length_scale, the data has 2 features"):
        ours.check_features(2)


def test_white_noise_is_in_the_nugget_and_nowhere_else():
    kernel = k.as_kernel(2.0 * sk.RBF(1.0) + sk.WhiteKernel(0.3)) + k.White(0.2)
    X, _ = inputs()
    assert kernel.nugget == pytest.approx(0.5)
    assert kernel.without_nugget() == 2.0 * k.SquaredExponential(1.0)
    assert_allclose(kernel.block(X), 2.0 * k.SquaredExponential(1.0).block(X), rtol=1e-14)
    assert k.DistancePolynomial((0.3, 1.0)).nugget == 0.3
    assert k.DistancePolynomial((0.3, 1.0)).without_nugget().nugget == 0.0


def test_distance_polynomial_is_the_papers_equation_4():
    X, _ = inputs()
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    assert_allclose(
        k.DistancePolynomial((0.7, 0.5, 0.2, 0.1)).block(X), 0.5 * D + 0.2 * D**2 + 0.1 * D**3, atol=1e-12
    )


def test_the_distance_matrix_has_one_positive_eigenvalue_and_its_square_rank_d_plus_2():
    X = np.random.default_rng(0).standard_normal((300, 8))
    values = np.linalg.eigvalsh(k.DistancePolynomial((0.0, 1.0)).block(X))
    assert (values > 0).sum() == 1
    assert np.linalg.matrix_rank(k.DistancePolynomial((0.0, 0.0, 1.0)).block(X)) == 10


@pytest.mark.parametrize(
    "kernel", [k.SquaredExponential(1.0), k.Matern(1.0, 0.5), k.Matern(1.0, 2.5)], ids=str
)
@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
def test_far_from_the_origin_nothing_is_lost(kernel, offset):
    # Steps of 1/8 are exact beside every offset here, so the two blocks see the same differences.
    X = np.arange(40).reshape(20, 2) / 8
    far = np.concatenate([X, [[-offset, 0.0]]])
    assert_allclose(kernel.block(X + offset, far + offset)[:, :20], kernel.block(X), rtol=1e-9, atol=1e-9)


def test_near_points_keep_the_digits_of_their_distance():
    x = np.array([[1.0, 2.0, 3.0]])
    near = x + np.array([[3e-9, 0.0, 0.0]])
    D = k.DistancePolynomial((0.0, 1.0)).block(np.concatenate([x, near]), np.concatenate([near, -x]))
    # Moving the origin rounds each coordinate once; a product alone would leave √eps·‖x‖, 5e-8.
    assert_allclose(D[0, 0], (near - x)[0, 0], atol=tolerance(float, 4))
    assert D[1, 0] == 0.0


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.floats(-140, 140), st.sampled_from(sorted(KERNELS)), st.integers(0, 10**6))
def test_any_scale_gives_finite_blocks(d, exponent, name, seed):
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
        (lambda: k.as_kernel(k.Linear), "is a class; give an object"),
        (lambda: k.as_kernel(sk.RBF), "is a class; give an object"),
        (lambda: k.as_kernel(sk.PairwiseKernel()), "cannot read"),
    ],
)
def test_a_kernel_that_cannot_be_says_why(build, words):
    with pytest.raises(KernelError, match=words):
        build()


def test_adding_something_that_is_no_kernel_is_a_type_error():
    with pytest.raises(TypeError):
        k.Linear() + "noise"


def test_white_noise_inside_a_scaled_sum_is_found():
    kernel = 2 * (k.White(0.1) + k.White(0.2)) + k.SquaredExponential(1.0)
    assert kernel.nugget == pytest.approx(0.6)
    assert kernel.without_nugget() == k.SquaredExponential(1.0)


def test_sum_of_a_list_of_kernels_is_their_sum():
    assert sum([k.Linear(), k.Constant(2.0)]) == k.Linear() + k.Constant(2.0)


def test_one_outlier_does_not_make_every_pair_near():
    X = np.random.default_rng(0).standard_normal((300, 5))
    X[0] += 1e4
    D = k.DistancePolynomial((0.0, 1.0)).block(X)
    assert_allclose(D, np.linalg.norm(X[:, None] - X[None], axis=2), rtol=1e-9, atol=1e-9)
