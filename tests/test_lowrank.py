import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from streamgp import kernels, lowrank
from streamgp._arrays import cholesky
from streamgp.errors import NumericalError


def decaying(n, rate, seed=0, signs=False):
    """A symmetric matrix with eigenvalues rate**i, every second one negative if `signs`."""
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    values = rate ** np.arange(n) * np.where(signs & (np.arange(n) % 2 == 1), -1, 1)
    return (Q * values) @ Q.T, values


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize(("rank", "oversampling"), [(5, 3), (12, 10), (30, 0)])
def test_algorithm_2_finds_the_leading_eigenpairs_within_the_bound(rank, oversampling, signs):
    A, values = decaying(80, 0.5, signs=signs)
    factor = lowrank.randomized_eigh(A, rank, oversampling, (1, 2))
    assert factor.rank == rank
    bound = (1 + 9 * np.sqrt((rank + oversampling) * 80)) * abs(values[rank])
    assert np.linalg.norm(A - factor.dense(), 2) <= 2 * bound
    assert_allclose(factor.U.T @ factor.U, np.eye(rank), atol=1e-13)


def test_algorithm_1_spans_the_range_of_a_matrix_of_that_rank():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((50, 7)) @ rng.standard_normal((7, 40))
    Q = lowrank.range_finder(A, 9, (0,), A)
    assert_allclose(Q @ (Q.T @ A), A, atol=1e-12 * np.abs(A).max())


@pytest.mark.parametrize("signs", [False, True])
def test_a_rank_that_reaches_the_size_is_exact(signs):
    A, _ = decaying(30, 0.8, signs=signs)
    assert_allclose(lowrank.randomized_eigh(A, 25, 5, (0,)).dense(), A, atol=2 * 0.8**25)
    assert_allclose(lowrank.randomized_eigh(A, 30, 5, (0,)).dense(), A, atol=1e-13)


def test_an_operator_gives_what_its_matrix_gives():
    A, _ = decaying(60, 0.7)

    class Only:
        shape = A.shape

        def __matmul__(self, other):
            return A @ other

    given_matrix = lowrank.randomized_eigh(A, 10, 5, (3,))
    given_operator = lowrank.randomized_eigh(Only(), 10, 5, (3,), like=A)
    assert_allclose(given_operator.dense(), given_matrix.dense(), atol=1e-14)


@pytest.mark.parametrize("condition", [1e0, 1e4, 1e7, 1e9, 1e14, np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_orthonormalize_survives_any_condition(condition, dtype):
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal((200, 12)))
    V, _ = np.linalg.qr(rng.standard_normal((12, 12)))
    values = np.geomspace(1, 1 / condition, 12) if np.isfinite(condition) else np.r_[np.ones(6), np.zeros(6)]
    Y = ((Q * values) @ V.T).astype(dtype)
    basis = lowrank.orthonormalize(Y)
    eps = np.finfo(dtype).eps
    assert_allclose(basis.T @ basis, np.eye(12), atol=50 * eps)
    assert_allclose(basis @ (basis.T @ Y), Y, atol=200 * eps)


def test_well_conditioned_matrices_do_not_need_householder(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("fell back")

    monkeypatch.setattr(np.linalg, "qr", refuse)
    Y = np.random.default_rng(0).standard_normal((300, 10))
    Q = lowrank.orthonormalize(Y)
    assert_allclose(Q.T @ Q, np.eye(10), atol=1e-14)


def gram_of(n, seed=0):
    X = np.random.default_rng(seed).uniform(-2, 2, (n, 2))
    return kernels.SquaredExponential(0.8).block(X)


def run_sequence(K, rank, literal, batch=20, oversampling=10):
    factor = lowrank.randomized_eigh(K[:batch, :batch], rank, oversampling, (0, 0))
    for t, n in enumerate(range(batch, K.shape[0], batch), 1):
        B, C = K[:n, n : n + batch], K[n : n + batch, n : n + batch]
        if literal:
            factor = lowrank.bordered_eigh(factor, B, C, rank, oversampling, (0, t))
        else:
            step = lowrank.sequential_step(factor.S, factor.U.T @ B, C, rank, oversampling, (0, t))
            factor = lowrank.Factor(step.basis(factor.U), step.S)
    return factor


@pytest.mark.parametrize("literal", [True, False])
def test_theorem_1_bounds_the_error_of_algorithm_3(literal):
    K, rank, p, batch = gram_of(200), 15, 10, 20
    factor = run_sequence(K, rank, literal, batch, p)
    bound = 2 * sum(
        (1 + 9 * np.sqrt((rank + p) * n)) * np.linalg.svd(K[:n, :n], compute_uv=False)[rank]
        for n in range(batch, 201, batch)
    )
    assert np.linalg.norm(K - factor.dense(), 2) <= bound


def test_the_projected_update_keeps_the_compression_exact_and_semidefinite():
    K = gram_of(200)
    factor = run_sequence(K, 15, literal=False)
    assert_allclose(factor.U.T @ factor.U, np.eye(15), atol=1e-13)
    assert_allclose(factor.U.T @ K @ factor.U, np.diag(factor.S), atol=1e-12)
    assert (factor.S > 0).all()


def test_the_bordered_matrix_as_printed_is_indefinite_when_the_rank_is_short():
    K = gram_of(200)
    factor = lowrank.randomized_eigh(K[:150, :150], 5, 5, (0,))
    bordered = lowrank.Bordered(factor, K[:150, 150:], K[150:, 150:]) @ np.eye(200)
    assert np.linalg.eigvalsh(bordered).min() < -0.1
    assert np.linalg.eigvalsh(K).min() > -1e-12


@pytest.mark.parametrize("literal", [True, False])
def test_algorithm_3_at_full_rank_is_exact(literal):
    K = gram_of(80)
    assert_allclose(run_sequence(K, 80, literal).dense(), K, atol=1e-12)


def test_indefinite_matrices_keep_their_signs():
    X = np.random.default_rng(0).standard_normal((60, 4))
    D2 = kernels.DistancePolynomial((0.0, 0.0, 1.0)).block(X)
    factor = run_sequence(D2, 10, literal=False)
    assert_allclose(factor.dense(), D2, atol=1e-11 * np.abs(D2).max())
    assert factor.rank == 6  # exactly d + 2
    assert (factor.S < 0).any()
    assert (factor.S > 0).any()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 1000), st.booleans())
def test_pivoted_cholesky_never_overshoots_and_is_exact_at_its_pivots(n, rank, seed, random):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    X[n // 2 :] = X[: n - n // 2]  # half of the rows are duplicates
    K = kernels.SquaredExponential(1.0).block(X)
    factor = lowrank.pivoted_cholesky(
        lambda i: K[:, i], np.diag(K).copy(), rank, 1e-12, (seed,) if random else None
    )
    residual = K - factor.dense()
    assert factor.rank == len(set(factor.pivots)) <= min(rank, n)
    assert np.linalg.eigvalsh(residual).min() > -1e-10
    assert_allclose(residual[list(factor.pivots)], 0, atol=1e-9)


def test_random_pivots_fall_where_the_residual_is():
    diagonal = np.array([1.0, 1.0, 98.0])
    hits = [
        lowrank.pivoted_cholesky(lambda i: np.diag(diagonal)[:, i], diagonal, 1, 0.0, (s,)).pivots[0]
        for s in range(400)
    ]
    # Binomial with p = 0.98: 4 standard deviations are 0.028.
    assert np.mean(np.array(hits) == 2) == pytest.approx(0.98, abs=0.03)


def test_a_matrix_that_is_not_positive_definite_is_named():
    with pytest.raises(NumericalError, match="my matrix is not positive definite"):
        cholesky(-np.eye(2), "my matrix")


@pytest.mark.parametrize(("r", "m"), [(9, 1), (9, 4), (30, 11), (5, 5)])
def test_a_complement_is_orthonormal_and_orthogonal_to_what_it_leaves_out(r, m):
    directions = np.random.default_rng(r).standard_normal((r, m))
    basis = lowrank.Complement.of(directions).rows(np.eye(r))
    assert basis.shape == (r, r - m)
    assert_allclose(basis.T @ basis, np.eye(r - m), atol=1e-14 * r)
    assert_allclose(basis.T @ directions, 0, atol=1e-13 * r)
    whole = lowrank.Complement.of(directions).turn(np.eye(r))
    assert_allclose(whole @ whole.T, np.eye(r), atol=1e-14 * r)
    A = directions @ directions.T + np.eye(r)
    assert_allclose(lowrank.Complement.of(directions).both(A), whole.T @ A @ whole, atol=1e-12 * r)


@pytest.mark.parametrize(("rank", "oversampling"), [(5, 3), (15, 10), (120, 0)])
@pytest.mark.parametrize("definite", [True, False])
@pytest.mark.parametrize("n", [1, 60])
def test_a_step_gives_the_whole_basis_and_the_projection_of_all_targets(rank, oversampling, definite, n):
    X = np.random.default_rng(1).uniform(-2, 2, (n + 40, 2))
    kernel = kernels.SquaredExponential(0.8) if definite else kernels.DistancePolynomial((0.0, 1.0, 0.3))
    K, y = kernel.block(X), np.random.default_rng(2).standard_normal((n + 40, 3))
    U = np.linalg.qr(np.random.default_rng(3).standard_normal((n, min(n, 12))))[0]
    S = np.diag(U.T @ K[:n, :n] @ U)
    step = lowrank.sequential_step(
        S, U.T @ K[:n, n:], K[n:, n:], rank, oversampling, (0, 1), definite=definite
    )
    basis = step.basis(U)
    assert step.S.shape[0] <= min(rank, U.shape[1] + 40)
    assert_allclose(basis, np.concatenate([U @ step.top, step.bottom]), atol=1e-14)
    assert_allclose(basis.T @ basis, np.eye(step.S.shape[0]), atol=1e-12)
    assert_allclose(step.project(U.T @ y[:n], y[n:]), basis.T @ y, atol=1e-12)


def test_a_factor_from_scratch_is_a_step_from_no_rows():
    factor = lowrank.randomized_eigh(gram_of(40), 8, 4, (0,))
    step, y = lowrank.Step.from_scratch(factor), np.random.default_rng(2).standard_normal((40, 3))
    assert_allclose(step.basis(factor.U[:0, :0]), factor.U, atol=0)
    assert_allclose(step.project(y[:0], y), factor.U.T @ y, atol=1e-13)
    assert_allclose(step.S, factor.S, atol=0)


@pytest.mark.parametrize("definite", [True, False])
def test_a_factor_does_not_depend_on_the_signs_that_lapack_gives_eigenvectors(definite):
    rng = np.random.default_rng(3)
    V = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    S = np.arange(8.0, 0.0, -1.0)
    signs = rng.choice([-1.0, 1.0], 8)
    assert (signs < 0).any()
    assert_allclose(lowrank.truncate(S, V * signs, 5, definite).U, lowrank.truncate(S, V, 5, definite).U)
