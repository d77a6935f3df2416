"""The numbered claims of sections 5 and 6 of the technical note (docs/note.md), on random matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from streamgp.gp.features import Pivots, Quadratic
from streamgp.gp.normal_equations import NormalEquations
from streamgp.kernels import SquaredExponential
from streamgp.lowrank import Complement

draws = pytest.mark.parametrize("seed", range(20))


def lowest(A):
    return np.linalg.eigvalsh(A)[0]


def subspace(rng, n, k):
    return np.linalg.qr(rng.standard_normal((n, k)))[0]


# Section 5


@draws
def test_proposition_8_the_distance_kernel_is_indefinite_and_its_square_has_rank_d_plus_2(seed):
    rng = np.random.default_rng(seed)
    n, d = 20, int(rng.integers(1, 5))
    X = rng.standard_normal((n, d))
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    a = rng.uniform(0, 2, 4)
    assert lowest(sum(a[i] * D ** (i + 1) for i in range(4))) < 0
    assert list(np.sign(np.linalg.eigvalsh(D))) == [-1] * (n - 1) + [1]
    far = a[0] * D.max() + a[1] * D.max() ** 2
    assert lowest(0.99 * far * np.eye(n) + a[0] * D + a[1] * D**2) < 0
    p = np.sum(X**2, axis=1)
    features = np.column_stack([(p + 1) / 2**0.5, (p - 1) / 2**0.5, 2**0.5 * X])
    signs = np.array([1, *[-1] * (d + 1)])
    assert_allclose((features * signs) @ features.T, D**2, atol=1e-11)
    values = np.linalg.eigvalsh(D**2)
    small = 1e-10 * values[-1]
    assert (values > small).sum() == 1
    assert (values < -small).sum() == d + 1
    closed = Quadratic.about(X)
    F = closed.transform(X)
    assert_allclose((F * closed.signs()) @ F.T, D**2, atol=1e-11)


@draws
def test_proposition_9_the_training_error_can_be_made_as_small_as_one_likes(seed):
    rng = np.random.default_rng(seed)
    X, y, identity = rng.standard_normal((12, 3)), rng.standard_normal(12), np.eye(12)
    D = np.linalg.norm(X[:, None] - X[None], axis=2)

    def residual(a, noise):
        K = a[0] * identity + a[1] * D + a[2] * D**2
        found = noise * np.linalg.solve(K + noise * identity, y)
        assert_allclose(y - K @ np.linalg.solve(K + noise * identity, y), found, atol=1e-8)
        return np.linalg.norm(found) / np.linalg.norm(y)

    assert residual((1e6, 1, 1), 0.1) < 1e-6
    assert residual((0.1, 1, 1), 1e-9) < 1e-6
    assert residual((1e7, 1e8, 1e8), 0.1) < 1e-6


@draws
def test_proposition_10_one_small_inverse_is_equations_6_and_7(seed):
    rng = np.random.default_rng(seed)
    n, y, a, s = 15, rng.standard_normal(15), rng.uniform(0.5, 2, 2), 0.3
    bases, values = [subspace(rng, n, k) for k in (3, 4)], [rng.standard_normal(k) + 0.1 for k in (3, 4)]
    whole = sum(w * (U * S) @ U.T for w, U, S in zip(a, bases, values, strict=True)) + s * np.eye(n)
    (U1, U2), (S1, S2) = bases, values
    P = np.eye(n) / s - U1 @ np.linalg.inv(np.diag(1 / (a[0] * S1)) + np.eye(3) / s) @ U1.T / s**2
    inner = np.linalg.inv(np.diag(1 / (a[1] * S2)) + U2.T @ P @ U2)
    printed = P - P @ U2 @ inner @ U2.T @ P
    Phi = np.hstack([U * np.abs(S) ** 0.5 for U, S in zip(bases, values, strict=True)])
    J, root = np.sign(np.concatenate(values)), np.repeat(a, (3, 4)) ** 0.5
    A, c, Psi = Phi.T @ Phi, Phi.T @ y, Phi * root
    M = root[:, None] * A * root + s * np.diag(J)
    inverse = (np.eye(n) - Psi @ np.linalg.inv(M) @ Psi.T) / s
    scale = np.abs(inverse).max() * max(1, np.abs(P).max())
    assert_allclose(inverse, np.linalg.inv(whole), atol=1e-9 * scale)
    assert_allclose(printed, inverse, atol=1e-8 * scale)
    assert_allclose(np.linalg.det(whole), s ** (n - 7) * np.prod(J) * np.linalg.det(M), rtol=1e-8)
    w = np.linalg.solve(M, root * c)
    assert_allclose(inverse @ y, (y - Psi @ w) / s, atol=1e-9 * scale)
    squares = y @ y - 2 * w @ (root * c) + w @ (root[:, None] * A * root) @ w
    assert_allclose(squares, np.sum((y - Psi @ w) ** 2), atol=1e-9 * scale**2)


# Section 6


def pivots(seed, r=7, m=2):
    """Pivots, rows with features and targets, and the pivots to drop."""
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(-3, 3, (30, 2)), rng.standard_normal((30, 1))
    features = Pivots(SquaredExponential(1.5), rng.uniform(-3, 3, (r, 2)), np.zeros((0, 0))).rebased()
    F = features.transform(X)
    empty = NormalEquations.empty(r, 1, F)
    return features, X, y, empty.add(F, y, 30.0), sorted(rng.choice(r, m, replace=False).tolist())


@draws
def test_proposition_11_dropping_pivots_is_exact(seed):
    features, X, y, statistics, gone = pivots(seed)
    left, complement = features.drop(gone)
    others = np.delete(features.Z, gone, axis=0)
    K, cross = features.kernel.block(others), features.kernel.block(X, others)
    F, after = left.transform(X), statistics.drop(complement)
    assert_allclose(left.V @ K @ left.V.T, np.eye(5), atol=1e-9)
    assert_allclose(F @ F.T, cross @ np.linalg.solve(K, cross.T), atol=1e-8)
    assert_allclose(after.gram, F.T @ F, atol=1e-9)
    assert_allclose(after.moment, F.T @ y, atol=1e-9)


@pytest.mark.parametrize("directions", ["random", "axes", "minus axes", "repeated axes"])
def test_proposition_12_the_block_reflection_is_never_singular(directions):
    given = {
        "random": np.random.default_rng(0).standard_normal((8, 3)),
        "axes": np.eye(8)[:, :3],
        "minus axes": -np.eye(8)[:, :3],
        "repeated axes": np.eye(8)[:, [0, 1, 5]],
    }[directions]
    found = Complement.of(given)
    R, H = np.eye(8) - found.Y @ found.T @ found.Y.T, np.linalg.inv(found.T) - np.eye(3)
    assert_allclose(R, R.T, atol=1e-13)
    assert_allclose(R @ R, np.eye(8), atol=1e-13)
    assert_allclose(found.Y.T @ found.Y, 2 * (np.eye(3) + H), atol=1e-13)
    assert np.linalg.cond(found.T) <= 2 + 1e-12
    assert_allclose(R[:, 3:].T @ given, 0, atol=1e-13)
    A = np.random.default_rng(1).standard_normal((8, 8))
    assert_allclose(found.both(A + A.T), R @ (A + A.T) @ R, atol=1e-12)


@pytest.mark.parametrize("window", [30, 12])
@draws
def test_proposition_13_an_exchange_is_a_pass_over_all_rows_with_zeros_outside_the_window(seed, window):
    features, X, y, statistics, gone = pivots(seed)
    new = np.random.default_rng([seed, 1]).uniform(-3, 3, (2, 2)) + np.array([[7.0, 0], [0, 7]])
    complement = Complement.of(features.V[:, gone])
    F, kept = complement.turn(features.transform(X)), complement.turn(features.transform(new))[:, 2:]
    kernel = features.kernel
    L = np.linalg.cholesky(kernel.block(new) - kept @ kept.T)
    F[:, :2] = np.linalg.solve(L, (kernel.block(X, new) - F[:, 2:] @ kept.T).T).T
    after = features.exchange(gone, complement, new, kept, L)
    assert_allclose(after.V @ kernel.block(after.Z) @ after.V.T, np.eye(7), atol=1e-8)
    assert_allclose(after.transform(X), F, atol=1e-8)
    rows = slice(30 - window, None)
    found = statistics.exchange(complement, F[rows], y[rows], np.ones(window))
    F[: 30 - window, :2] = 0
    assert_allclose(found.gram, F.T @ F, atol=1e-8)
    assert_allclose(found.moment, F.T @ y, atol=1e-8)
