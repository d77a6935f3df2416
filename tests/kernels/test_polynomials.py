"""The paper's distance kernel."""

import numpy as np
from numpy.testing import assert_allclose

from streamgp import kernels as k


def test_distance_polynomial_is_the_papers_equation_5():
    X = np.random.default_rng(3).standard_normal((12, 3))
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    assert_allclose(
        k.DistancePolynomial((0.7, 0.5, 0.2, 0.1)).block(X), 0.5 * D + 0.2 * D**2 + 0.1 * D**3, atol=1e-12
    )


def test_the_distance_matrix_has_one_positive_eigenvalue_and_its_square_rank_d_plus_2():
    X = np.random.default_rng(0).standard_normal((300, 8))
    values = np.linalg.eigvalsh(k.DistancePolynomial((0.0, 1.0)).block(X))
    assert (values > 0).sum() == 1
    assert np.linalg.matrix_rank(k.DistancePolynomial((0.0, 0.0, 1.0)).block(X)) == 10
