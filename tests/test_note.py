"""The numbered claims of sections 2 to 4 of the technical note (docs/note.md), on random matrices.

Those of sections 5 and 6 are in test_note_features.py, the page itself in test_note_page.py.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from docs import note_figures
from streamgp import StreamingGPRegressor
from streamgp.kernels import SquaredExponential
from streamgp.lowrank import Factor, bordered_eigh, randomized_eigh, sequential_step

draws = pytest.mark.parametrize("seed", range(20))
TOLERANCE = 1e-10


def gp(seed, n=14, new=5, noise=None):
    """A random squared exponential GP: its rows, k of rows and new rows together, targets and noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + new, 3))
    K = SquaredExponential(rng.uniform(0.7, 2)).block(X)
    return rng, K, rng.standard_normal(n), noise or 10 ** rng.uniform(-3, 0)


def subspace(rng, n, k):
    return np.linalg.qr(rng.standard_normal((n, k)))[0]


def conditional(K, U, noise):
    """The covariance of f at the last rows of K given Uᵀy of the first ones, and the map from Uᵀy to its mean."""
    n = U.shape[0]
    gain = np.linalg.solve(U.T @ K[:n, :n] @ U + noise * np.eye(U.shape[1]), U.T @ K[:n, n:]).T
    return K[n:, n:] - gain @ U.T @ K[:n, n:], gain


def lowest(A):
    return np.linalg.eigvalsh(A)[0]


def norm(A):
    return np.linalg.norm(A, 2)


# Section 2


@draws
def test_proposition_1_printed_minus_projected_is_what_was_cut_over_the_noise(seed):
    rng, K, y, noise = gp(seed)
    n, k = 14, int(rng.integers(1, 14))
    U, S = subspace(rng, n, k), rng.standard_normal(k)  # any signs: only S + σ² must not vanish
    inverse = np.linalg.inv((U * S) @ U.T + noise * np.eye(n))
    paper = np.eye(n) / noise - U @ np.diag(1 / (1 / S + 1 / noise)) @ U.T / noise**2
    scale = np.abs(inverse).max()
    assert_allclose(paper, inverse, atol=TOLERANCE * scale)
    assert_allclose(
        U @ np.diag(1 / (S + noise)) @ U.T + (np.eye(n) - U @ U.T) / noise, inverse, atol=TOLERANCE * scale
    )
    B, left = K[:n, n:], K[:n, n:] - U @ (U.T @ K[:n, n:])
    found = note_figures.predictions(Factor(U, S), B, np.ones(5), y, noise)
    error = y - U @ (U.T @ y)
    assert_allclose(found.printed, B.T @ inverse @ y, atol=TOLERANCE * scale)
    assert_allclose(found.printed - found.projected, left.T @ error / noise, atol=TOLERANCE * scale)
    printed_variance = 1 - np.sum(B * (inverse @ B), axis=0)
    assert_allclose(found.printed_variance, printed_variance, atol=TOLERANCE * scale)
    less = np.sum(left**2, axis=0)
    assert_allclose(found.projected_variance - printed_variance, less / noise, atol=TOLERANCE * scale)
    # ‖k_⊥‖² ≤ k(x, x)·‖(I − P)K(I − P)‖, for a positive semi-definite kernel.
    R = np.eye(n) - U @ U.T
    assert np.all(less <= norm(R @ K[:n, :n] @ R) * (1 + TOLERANCE))


@pytest.mark.parametrize("kind", ["literal", "projected", "batch"])
def test_the_counterexample_has_one_factor_whatever_the_algorithm_and_grows_by_51_a_batch(kind):
    q, K = 50.0, np.array([[1.0, 0.5], [0.5, 1.0]])
    factor, y = Factor(np.ones((2, 1)) / 2**0.5, np.array([1.5])), np.array([1.0, -1.0])
    for t in range(1, 6):
        whole = np.kron(np.ones((t, t)), K)
        expected = np.ones(2 * t) / (2 * t) ** 0.5
        assert_allclose(np.abs(factor.U[:, 0]), expected, atol=1e-12)
        assert_allclose(factor.S, [1.5 * t], rtol=1e-12)
        B = np.kron(np.ones((t, 1)), K)
        found = note_figures.predictions(factor, B, np.ones(2), y, 0.01)
        assert_allclose(found.printed, q * (1 + q) ** (t - 1) * np.array([1, -1]), rtol=1e-9)
        assert_allclose(found.projected, 0, atol=1e-9 * (1 + q) ** t)
        assert_allclose(found.printed_variance, found.projected_variance - 12.5 * t, rtol=1e-10)
        exact = B.T @ np.linalg.solve(whole + 0.01 * np.eye(2 * t), y)
        if t == 1:
            assert_allclose(exact, [0.5 / 0.51, -0.5 / 0.51], rtol=1e-12)
            assert f"{found.printed_variance[0]:.3f}" == "-12.245"
            assert f"{found.projected_variance[0]:.3f}" == "0.255"
            bordered = np.block([[factor.dense(), B], [B.T, K]])
            assert_allclose(np.linalg.eigvalsh(bordered)[0], -0.5 * (5**0.5 - 1) / 2, rtol=1e-12)
            assert norm(K - factor.dense()) == pytest.approx(0.5)
        y = np.append(y, found.printed)
        if kind == "literal":
            factor = bordered_eigh(factor, B, K, 1, 99, seed=(0, t))
        elif kind == "projected":
            step = sequential_step(factor.S, factor.U.T @ B, K, 1, 99, seed=(0, t))
            factor = Factor(step.basis(factor.U), step.S)
        else:
            factor = randomized_eigh(np.kron(np.ones((t + 1, t + 1)), K), 1, 99, (0, t))


def test_the_library_as_printed_gives_the_numbers_of_the_counterexample():
    X, distance = np.array([[0.0], [1.0]]), (2 * np.log(2)) ** 0.5
    kernel = SquaredExponential(1 / distance)
    given = {
        "method": "srmf",
        "rank": 1,
        "oversampling": 99,
        "noise": 0.01,
        "tune": "none",
        "random_state": 0,
    }
    printed, projected = (
        StreamingGPRegressor(kernel, variant=v, **given).partial_fit(X, [1.0, -1.0])
        for v in ("literal", "projected")
    )
    means = []
    for _ in range(3):
        means.append(printed.predict(X)[0])
        printed.partial_fit(X, printed.predict(X))
    assert_allclose(means, [50, 2550, 130050], rtol=1e-6)
    assert_allclose(projected.predict(X), 0, atol=1e-12)


def projected_steps(seed, steps=4, b=6, k=4, oversampling=2):
    """Self-training by projected steps: yields K so far, the factor, the targets, B and the next factor."""
    _, K, y, noise = gp(seed, n=b, new=b * steps)
    found = np.linalg.eigh(K[:b, :b])
    factor = Factor(found[1][:, -k:], found[0][-k:])
    for end in range(b, K.shape[0], b):
        B, C = K[:end, end : end + b], K[end : end + b, end : end + b]
        step = sequential_step(factor.S, factor.U.T @ B, C, k, oversampling, seed=(seed, end), definite=True)
        after = Factor(step.basis(factor.U), step.S)
        y = yield K[: end + b, : end + b], factor, y, B, after, noise
        factor = after


@draws
def test_proposition_2_what_was_cut_of_the_targets_never_comes_back(seed):
    run, targets = projected_steps(seed), None
    for _ in range(4):
        _, factor, y, B, after, noise = run.send(targets)
        mean = note_figures.predictions(factor, B, np.ones(B.shape[1]), y, noise).printed
        targets = np.append(y, mean)
        kept = factor.U @ (factor.U.T @ y)
        error, R = y - kept, np.eye(after.U.shape[0]) - after.U @ after.U.T
        new_error, part = R @ targets, R @ np.append(kept, mean)
        assert_allclose(new_error, np.append(error, 0 * mean) + part, atol=TOLERANCE * norm(targets[:, None]))
        squares = error @ error + part @ part
        assert new_error @ new_error == pytest.approx(squares, rel=1e-9)
        # The lower bound, with β and η as large and as small as this step allows.
        amplified = (B - factor.U @ (factor.U.T @ B)).T @ error / noise
        gained = R @ np.append(0 * y, amplified)
        other = R @ np.append(kept, mean - amplified)
        beta = np.linalg.norm(gained) * noise / np.linalg.norm(error)
        eta = np.linalg.norm(other) / np.linalg.norm(gained)
        if eta < 1:
            assert new_error @ new_error >= (1 + ((1 - eta) * beta / noise) ** 2) * (error @ error) * (
                1 - 1e-9
            )


# Section 3


@draws
def test_proposition_3_the_projected_pair_lies_between_the_exact_gp_and_the_prior(seed):
    rng, K, y, noise = gp(seed)
    n, k = 14, int(rng.integers(2, 13))
    U = subspace(rng, n, k)
    covariance, gain = conditional(K, U, noise)
    S, V = np.linalg.eigh(U.T @ K[:n, :n] @ U)
    found = note_figures.predictions(Factor(U @ V, S), K[:n, n:], np.ones(5), y, noise)
    assert_allclose(found.projected, gain @ U.T @ y, atol=1e-9)
    assert_allclose(found.projected_variance, covariance.diagonal(), atol=1e-9)
    exact = conditional(K, np.eye(n), noise)[0]
    fewer = conditional(K, U @ subspace(rng, k, k - 1), noise)[0]
    for larger, smaller in ((K[n:, n:], covariance), (covariance, exact), (fewer, covariance)):
        assert lowest(larger - smaller) > -1e-9
    assert lowest(covariance) > -1e-9
    R = np.eye(n) - U @ U.T
    ratio = 1 + norm(R @ K[:n, :n] @ R) / noise
    assert lowest(ratio * exact - covariance) > -1e-9 * ratio
    assert_allclose(conditional(K, subspace(rng, n, n), noise)[0], exact, atol=1e-9)


@draws
def test_proposition_4_a_projected_step_keeps_the_compression_and_the_trace_exact(seed):
    run, targets, lost = projected_steps(seed), None, None
    for _ in range(4):
        K, factor, y, B, after, _ = run.send(targets)
        n = B.shape[0]
        lost = np.trace(K[:n, :n]) - factor.S.sum() if lost is None else lost
        core = np.trace(np.diag(factor.S)) + np.trace(K[n:, n:])
        lost += core - after.S.sum()
        assert_allclose(after.U.T @ after.U, np.eye(4), atol=TOLERANCE)
        assert_allclose(after.U.T @ K @ after.U, np.diag(after.S), atol=TOLERANCE)
        assert lost == pytest.approx(np.trace(K) - after.S.sum(), rel=1e-9)
        assert np.all(after.S >= 0)
        assert np.all(np.linalg.eigvalsh(K)[::-1][:4] + TOLERANCE >= after.S)
        targets = np.append(y, np.zeros(K.shape[0] - n))


@draws
def test_proposition_5_self_training_with_the_projected_pair_is_bounded(seed):
    run, targets, before = projected_steps(seed), None, np.inf
    for _ in range(4):
        K, factor, y, B, _, noise = run.send(targets)
        mean = note_figures.predictions(factor, B, np.ones(B.shape[1]), y, noise).projected
        energy = float(np.sum((factor.U.T @ y) ** 2 / (factor.S + noise)))
        if targets is None:
            n = B.shape[0]
            most = y @ np.linalg.solve(K[:n, :n] + noise * np.eye(n), y)
        assert energy <= min(before, most) * (1 + 1e-9)
        assert np.all(mean**2 <= most * (1 + 1e-9))
        before, targets = energy, np.append(y, mean)


def test_the_exact_gp_does_not_move_when_it_learns_its_own_predictions():
    _, K, y, noise = gp(0)
    n = len(y)
    weights = np.linalg.solve(K[:n, :n] + noise * np.eye(n), y)
    again = np.linalg.solve(K + noise * np.eye(len(K)), np.append(y, K[n:, :n] @ weights))
    assert_allclose(again, np.append(weights, np.zeros(len(K) - n)), atol=1e-10 * np.abs(weights).max())


@draws
def test_proposition_6_the_bordered_matrix_has_a_negative_eigenvalue_for_each_direction_that_leaves_the_past(
    seed,
):
    rng, K, _, _ = gp(seed, n=10, new=4)
    k = int(rng.integers(3, 10))
    U = subspace(rng, 10, k)
    B, C = K[:10, 10:], K[10:, 10:]
    past = U @ (U.T @ K[:10, :10] @ U) @ U.T
    values = np.linalg.eigvalsh(np.block([[past, B], [B.T, C]]))
    left = norm(B - U @ (U.T @ B))
    assert values[0] <= -2 * left**2 / (norm(C) + (norm(C) ** 2 + 4 * left**2) ** 0.5) + TOLERANCE
    assert (values < -1e-13).sum() == min(10 - k, 4)
    signed = rng.standard_normal(k)
    values = np.linalg.eigvalsh(np.block([[(U * signed) @ U.T, B], [B.T, C]]))
    assert (values < -1e-13).sum() >= (signed < 0).sum() + min(10 - k, 4)
    inside = U @ (U.T @ B)  # B within the span of U: no negative eigenvalue
    assert lowest(np.block([[past, inside], [inside.T, C]])) > -1e-12


# Section 4


@pytest.mark.parametrize("exact", [True, False])
@draws
def test_theorem_7_the_unseen_part_is_bounded_by_the_eigenvalues_of_the_kernel_matrices(seed, exact):
    run, targets = projected_steps(seed, oversampling=99 if exact else 2), None
    for t in range(4):
        K, factor, y, B, after, _ = run.send(targets)
        values, n = np.linalg.eigvalsh(K)[::-1], B.shape[0]
        if not t:
            first = np.linalg.eigvalsh(K[:n, :n])[::-1]
            bound, tails, unseen = first[4], first[4:].sum(), first[4]
        basis = np.block([[factor.U, np.zeros((n, 6))], [np.zeros((6, 4)), np.eye(6)]])
        core, V = basis.T @ K @ basis, basis.T @ after.U
        cut = (np.eye(10) - V @ V.T) @ core @ (np.eye(10) - V @ V.T)
        assert np.all(np.linalg.eigvalsh(core)[::-1] <= values[:10] + TOLERANCE)
        bound += (1 if exact else 2 + 9 * (6 * 10) ** 0.5) * values[4]
        tails += values[4:].sum()
        R = np.eye(len(K)) - after.U @ after.U.T
        assert norm(R @ K @ R) <= unseen + norm(cut) + TOLERANCE
        unseen = norm(R @ K @ R)
        assert unseen <= bound + TOLERANCE
        assert not exact or np.trace(K) - after.S.sum() <= tails + TOLERANCE
        targets = np.append(y, np.zeros(6))


@draws
def test_weyl_relates_the_eigenvalues_of_the_bordered_matrix_to_those_of_the_kernel_matrix(seed):
    rng, K, _, _ = gp(seed, n=10, new=4)
    U = subspace(rng, 10, 4)
    past = U @ (U.T @ K[:10, :10] @ U) @ U.T
    bordered = K.copy()
    bordered[:10, :10] = past
    gap = np.linalg.svd(K, compute_uv=False) - np.linalg.svd(bordered, compute_uv=False)
    assert np.abs(gap).max() <= norm(K[:10, :10] - past) + TOLERANCE


def test_a_small_error_of_the_factor_does_not_bound_the_printed_prediction():
    K, U, y = np.array([[1.0, 0.99], [0.99, 1.0]]), np.ones((2, 1)) / 2**0.5, np.array([1.0, -1.0])
    factor = Factor(U, np.array([1.99]))
    found = note_figures.predictions(factor, K, np.ones(2), y, 1e-4)
    assert norm(K - factor.dense()) == pytest.approx(0.01)
    assert_allclose(found.printed, [100, -100], rtol=1e-9)
    weights = np.linalg.solve(K + 1e-4 * np.eye(2), y)
    bound = 0.01 / 1e-4 * np.linalg.norm(K[0]) * np.linalg.norm(weights)
    assert 0.001 * bound < abs(found.printed[0] - K[0] @ weights) < bound
