"""Algorithm 5 as printed: against a dense transcription, the exact GP, and the statistics that weights are tuned on."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import streamgp
from conftest import Counting, wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import NumericalError
from streamgp.lowrank import Factor
from streamgp.methods.exact import ExactState
from streamgp.methods.printed import NestedInverse, PrintedWeightedState
from streamgp.methods.spectral import SpectralConfig, SpectralState
from streamgp.methods.weighted import WeightedState
from streamgp.tuning.objectives import StatisticsObjective
from streams import AFFINE, PARTS

# One, two and three parts; indefinite and positive semi-definite.
KERNELS = [
    kernels.DistancePolynomial((0.0, 1.0)),
    kernels.DistancePolynomial((0.0, 0.7, 0.4)),
    kernels.DistancePolynomial((0.0, 0.5, 0.3, 0.1)),
    kernels.BrownianPolynomial((0.0, 1.3)),
    kernels.BrownianPolynomial((0.0, 0.7, 0.2)),
    kernels.WeightedSum(PARTS, (0.3, 1.2, 0.5)),
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=str)
both_methods = pytest.mark.parametrize("sequential", [True, False], ids=["srmf", "brmf"])
indefinite = pytest.mark.filterwarnings("ignore::streamgp.errors.NegativeVarianceWarning")
NOISES = (0.05, 0.4, 10.0)


def state_of(kernel, sequential, batches=(40, 1, 30, 29), rank=15, noise=0.4, kind=PrintedWeightedState):
    """A state that has learned a wave with two outputs batch by batch, and its rows."""
    X, y = wave(sum(batches), q=2)
    state = kind.empty(SpectralConfig(rank, 5, 3, sequential, literal=True), kernel, noise, X, y)
    for end, b in zip(np.cumsum(batches), batches, strict=True):
        state = state.update(X[end - b : end], y[end - b : end])
    return state, X, y


def assert_close(found, expected, relative, size=None):
    """Differences are below `relative` times the largest entry, or times a given size."""
    size = np.abs(expected).max() if size is None else size
    assert_allclose(found, expected, rtol=0, atol=relative * size)


def truncated(state, kernel):
    """The factored kernel matrix as a dense one."""
    return sum(a * factor.dense() for a, factor in zip(kernel.amounts, state.factors, strict=True))


def other_weights(kernel):
    """The kernel, and with two other sets of weights."""
    shift = np.linspace(-1.0, 2.0, kernel.theta.size)
    return [kernel, kernel.with_theta(kernel.theta + shift), kernel.with_theta(kernel.theta - shift)]


def squared_error(state, y):
    return float(((y - state.training_predictions()) ** 2).sum())


# Eqs. (6) and (7)


@every_kernel
@both_methods
def test_the_nested_inverse_is_the_dense_inverse_of_the_truncated_matrix_plus_noise(kernel, sequential):
    state, _, y = state_of(kernel, sequential)
    for weights in other_weights(kernel):
        for noise in NOISES:
            C = truncated(state, weights) + noise * np.eye(100)
            expected, found = np.linalg.inv(C), state.retuned(weights, noise).inverse @ np.eye(100)
            # Condition numbers reach 1e5.
            assert_close(found, expected, 1e-10)
            assert_close(found @ y, np.linalg.solve(C, y), 1e-10)


def test_the_nested_inverse_takes_any_number_of_parts_in_any_order():
    rng = np.random.default_rng(0)
    factors = [
        Factor(np.linalg.qr(rng.standard_normal((60, k)))[0], rng.standard_normal(k)) for k in range(6)
    ]
    amounts = rng.uniform(0.1, 2.0, 6)
    expected = np.linalg.inv(
        2.5 * np.eye(60) + sum(a * f.dense() for a, f in zip(amounts, factors, strict=True))
    )
    for order in (range(6), (3, 0, 5, 1, 4, 2)):
        inverse = NestedInverse.of([factors[i] for i in order], [amounts[i] for i in order], 2.5)
        assert_close(inverse @ np.eye(60), expected, 1e-11)


def test_the_nested_inverse_forms_no_matrix_of_all_rows():
    rng, n = np.random.default_rng(0), 4000
    factors = [
        Factor(np.linalg.qr(rng.standard_normal((n, 4)))[0], rng.uniform(1.0, 9.0, 4)) for _ in range(3)
    ]
    tracemalloc.start()
    try:
        NestedInverse.of(factors, [1.0, 0.5, 2.0], 0.1) @ np.ones((n, 1))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n * n * 8 / 20


def test_a_noise_that_cancels_an_eigenvalue_is_named(library):
    U = library.asarray(np.eye(5)[:, :2])
    inverse = NestedInverse.of([Factor(U, library.asarray(np.array([3.0, -0.5])))], [2.0], 1.0)
    with pytest.raises(NumericalError, match=r"noise=1 cancels an eigenvalue.*use another noise"):
        inverse @ library.asarray(np.ones((5, 1)))


# Steps 1 to 16, line by line on formed matrices


def algorithm_2(A, rank, seed):
    """The leading eigenpairs of a dense A, with the test matrix of the library; five columns more than the rank."""
    omega = np.random.default_rng(seed).standard_normal((len(A), rank + 5))
    Q = np.linalg.qr(A @ omega)[0]
    Z = Q.T @ A @ Q
    S, V = np.linalg.eigh(Z)
    kept = np.argsort(-np.abs(S))[:rank]
    kept = kept[np.abs(S[kept]) > 1e-13 * np.abs(S).max()]
    return (Q @ V)[:, kept], S[kept]


def transcribed_factors(kernel, X, batches, sequential, rank=15):
    """Steps 1 to 10 of Algorithm 5: U and S of each part."""
    factors = []
    for i in range(len(kernel.amounts)):
        D = kernel.part_blocks(X, None, [i])[0]
        n = batches[0]
        U, S = algorithm_2(D[:n, :n], rank, [3, 0, i])  # steps 1 and 2
        for t, b in enumerate(batches[1:], 1):  # step 3
            B, C = D[:n, n : n + b], D[n : n + b, n : n + b]  # step 4
            past = U @ np.diag(S) @ U.T if sequential else D[:n, :n]
            D_bar = np.block([[past, B], [B.T, C]])  # step 5
            U, S = algorithm_2(D_bar, rank, [3, t, i])  # steps 6 to 9
            n += b
        factors.append((U, S))  # step 10
    return factors


def transcribed_inverse(factors, amounts, noise):
    """Steps 11 and 15: eq. (6), then eq. (7) for each further part."""
    (U, S), a = factors[0], amounts[0]
    eye = np.eye(len(U))
    inner = np.linalg.inv(np.diag(1 / S) / a + np.eye(len(S)) / noise)
    inverse = eye / noise - U @ inner @ U.T / noise**2  # eq. (6)
    for (U, S), a in zip(factors[1:], amounts[1:], strict=True):
        inner = np.linalg.inv(np.diag(1 / S) / a + U.T @ inverse @ U)
        inverse = inverse - inverse @ U @ inner @ U.T @ inverse  # eq. (7)
    return inverse


@every_kernel
@both_methods
@pytest.mark.parametrize("batches", [(40, 30, 30), (25, 1, 25, 49)], ids=str)
def test_a_stream_is_learned_and_predicted_as_algorithm_5_prints_it(kernel, sequential, batches):
    state, X, y = state_of(kernel, sequential, batches)
    factors = transcribed_factors(kernel, X, batches, sequential)
    for ours, (U, S) in zip(state.factors, factors, strict=True):
        expected = U @ np.diag(S) @ U.T
        assert ours.rank == len(S)
        assert_close(ours.dense(), expected, 1e-10)
    inverse = transcribed_inverse(factors, kernel.amounts, 0.4)
    K = sum(a * U @ np.diag(S) @ U.T for a, (U, S) in zip(kernel.amounts, factors, strict=True))
    # σ⁻²I is subtracted from nearly all of itself.
    assert_close(state.training_predictions(), K @ inverse @ y, 1e-10, np.abs(K @ y).max() / 0.4)  # step 12
    new = wave(20, seed=1)[0]
    k_x, found = kernel.block(X, new), state.predict(new)  # step 16, eq. (1)
    covariance, size = kernel.block(new) - k_x.T @ inverse @ k_x, np.abs(k_x.T @ k_x).max() / 0.4
    assert_close(found.mean, k_x.T @ inverse @ y, 1e-10, np.abs(k_x.T @ y).max() / 0.4)
    for j, found_covariance in enumerate(state.predict(new, covariance=True).covariance):
        assert_close(found.variance[:, j], np.diag(covariance), 1e-10, size)
        assert_close(found_covariance, covariance, 1e-10, size)


# The statistics on which weights are tuned


@every_kernel
@both_methods
def test_the_training_error_of_steps_11_and_12_is_that_of_the_statistics(kernel, sequential):
    state, _, y = state_of(kernel, sequential)
    objective, compared = StatisticsObjective(*state.weight_statistics, "training_error"), 0
    for weights in other_weights(kernel):
        for noise in NOISES:
            try:
                value = objective(weights, noise).value
            except NumericalError:  # not defined for these weights: tuning does not go there
                continue
            compared += 1
            printed = squared_error(state.retuned(weights, noise), y)
            # Above yᵀy only where K + σ²I is nearly singular: rounding grows with it.
            tolerance = 1e-10 * max(1.0, printed / float((y**2).sum()))
            assert -2.0 * value * y.size == pytest.approx(printed, rel=tolerance)
    assert compared >= 6


@both_methods
@pytest.mark.parametrize("noise", [1e-8, 1e-4, 1.0])
def test_at_full_rank_the_statistics_have_the_training_error_to_a_rounding_of_yty(sequential, noise):
    """yᵀy − … cancels: a training error of 1e-11 of yᵀy has few digits, whatever the noise."""
    for kernel in KERNELS[3:]:
        state, X, y = state_of(kernel, sequential, rank=100, noise=noise)
        value = StatisticsObjective(*state.weight_statistics, "training_error")(kernel, noise).value
        residual = noise * np.linalg.solve(kernel.block(X) + noise * np.eye(100), y)
        # 4e-12 was seen on one processor, less than 1e-12 on another: sums are rounded in another order.
        assert abs(-2.0 * value * y.size - (residual**2).sum()) < 1e-11 * (y**2).sum()


@every_kernel
@both_methods
def test_the_mean_and_the_evidence_of_the_statistics_are_those_of_the_nested_inverse(kernel, sequential):
    state, _, y = state_of(kernel, sequential, noise=10.0)
    posterior, C = state.posterior, truncated(state, kernel) + 10.0 * np.eye(100)
    features = [f.U * np.sqrt(a * np.abs(f.S)) for a, f in zip(kernel.amounts, state.factors, strict=True)]
    fitted = posterior.mean(np.concatenate(features, axis=1))
    assert_close(fitted, state.training_predictions(), 1e-10)
    values = np.linalg.eigvalsh(C)
    if values[0] > 0:
        quadratic = float((y * (state.inverse @ y)).sum())
        density = -0.5 * (quadratic + 2 * (np.log(values).sum() + 100 * np.log(2 * np.pi)))
        assert state.log_evidence() == pytest.approx(density, rel=1e-10)
    else:
        assert state.log_evidence() == -np.inf


@pytest.mark.parametrize("kernel", KERNELS[4:], ids=str)
def test_statistics_keep_digits_that_the_nested_inverse_divides_away(kernel):
    """Why M = A + σ²J replaces eqs. (6) and (7) in `variant="projected"`: at full rank both are the exact GP."""
    new, errors = wave(20, seed=1)[0], {}
    for kind in (WeightedState, PrintedWeightedState):
        state, X, _ = state_of(kernel, True, rank=100, noise=1e-6, kind=kind)
        k_x = kernel.block(X, new)
        solved = np.linalg.solve(kernel.block(X) + 1e-6 * np.eye(100), k_x)
        errors[kind] = np.abs(
            state.predict(new).variance[:, 0] - kernel.diag(new) + (k_x * solved).sum(axis=0)
        ).max()
    assert errors[WeightedState] < 1e-8
    assert errors[PrintedWeightedState] > 30 * errors[WeightedState]


# The exact GP


@pytest.mark.parametrize("kernel", [*AFFINE, *KERNELS], ids=str)
@both_methods
@pytest.mark.parametrize("batches", [(30, 1, 59), (90,), (1, 1, 88)], ids=str)
def test_at_full_rank_the_printed_algorithm_is_the_exact_gp(kernel, sequential, batches):
    state, X, y = state_of(kernel, sequential, batches, rank=90)
    exact = ExactState.empty(kernel, 0.4, False, X, y).update(X, y)
    new = wave(20, seed=1)[0]
    ours, theirs = state.predict(new), exact.predict(new)
    assert_allclose(ours.mean, theirs.mean, atol=1e-7)
    assert_allclose(ours.variance, theirs.variance, atol=1e-7)
    covariances = [s.predict(new, covariance=True).covariance for s in (state, exact)]
    assert_allclose(*covariances, atol=1e-7)
    assert (state.count, state.step) == (90, len(batches))
    assert state.prior_trace == pytest.approx(exact.prior_trace, rel=1e-10)


# Life of a state


@every_kernel
@both_methods
def test_new_weights_equal_having_had_them_from_the_start_also_for_rows_learned_later(kernel, sequential):
    second = other_weights(kernel)[1]
    (state, X, _), (other, _, _) = (state_of(k, sequential) for k in (kernel, second))
    state.predict(X)  # of the old weights: not an answer of the new ones
    turned, other = state.retuned(second, 0.7), other.retuned(second, 0.7)
    more, more_y = wave(30, seed=7, q=2)
    for a, b in ((turned, other), (turned.update(more, more_y), other.update(more, more_y))):
        assert_array_equal(a.predict(X).mean, b.predict(X).mean)
        assert_array_equal(a.predict(X).variance, b.predict(X).variance)


def test_a_step_takes_the_kernel_entries_of_the_border_and_factors_every_power():
    parts = tuple(Counting(k) for k in PARTS)
    state, X, y = state_of(kernels.WeightedSum(parts), True)
    for part in parts:
        part.taken()
    state.update(X[:20], y[:20])
    assert [part.taken() for part in parts] == [100 * 20 + 20 * 20] * 3
    squared = state_of(kernels.DistancePolynomial((0.0, 0.0, 1.0)), True)[0]
    assert squared.parts[0].quadratic is None
    assert squared.factors[0].rank == 5  # d + 2, found by the factorisation


@both_methods
def test_every_array_library_gives_the_same(library, sequential):
    kernel, (X, y), new = KERNELS[2], wave(60, q=2), wave(9, seed=1)[0]
    config = SpectralConfig(12, 5, 3, sequential, literal=True)
    expected, found = (
        PrintedWeightedState.empty(config, kernel, 0.4, convert(X), convert(y))
        .update(convert(X[:40]), convert(y[:40]))
        .update(convert(X[40:]), convert(y[40:]))
        .predict(convert(new))
        for convert in (np.array, library.asarray)
    )
    assert_close(library.to_numpy(found.mean), expected.mean, 1e-9)
    assert_close(library.to_numpy(found.variance), expected.variance, 1e-9)


# The regressor


def regressor(kernel, method="srmf", tune="continuous", **given):
    return StreamingGPRegressor(
        kernel,
        method=method,
        variant="literal",
        tune=tune,
        **{"objective": "training_error", "noise": 0.5, "rank": 20, "random_state": 0, **given},
    )


@indefinite
@pytest.mark.parametrize("method", ["srmf", "brmf"])
@pytest.mark.parametrize("tune", ["continuous", "initial", "hybrid", "doubling"])
@pytest.mark.parametrize("kernel", [KERNELS[1], KERNELS[4], KERNELS[5]], ids=str)
@pytest.mark.parametrize("objective", ["training_error", "evidence", "loo"])
def test_a_stream_is_tuned_and_predicted_in_every_mode(kernel, method, tune, objective):
    X, y = wave(250)
    gp = regressor(kernel, method, tune, initial_batches=3, objective=objective)
    kinds = []
    for i in range(0, 250, 50):
        gp.partial_fit(X[i : i + 50], y[i : i + 50])
        kinds.append(type(gp.learner_.state))
        answers = gp.predict(X[:20], return_interval=0.9)
        assert all(np.isfinite(a).all() for a in answers)
    fixed = 2 if tune == "hybrid" else 5
    assert kinds == [PrintedWeightedState] * fixed + [SpectralState] * (5 - fixed)
    assert gp.learner_.state.config.literal
    if objective == "training_error":
        assert gp.kernel_.weights != kernel.weights


@indefinite
@pytest.mark.parametrize("method", ["srmf", "brmf"])
@pytest.mark.parametrize("kernel", [*KERNELS[1:3], *KERNELS[4:]], ids=str)
def test_a_tuning_lowers_the_training_error_as_printed_by_what_it_says(method, kernel):
    X, y = wave(300)
    gp = regressor(kernel, method, "initial", initial_batches=1).partial_fit(X[:200], y[:200])
    outcome, state = gp.tuning_, gp.learner_.state
    assert outcome.taken
    before = state.retuned(kernel, 0.5)
    for s, value in ((before, outcome.before), (state, outcome.after)):
        assert -2.0 * value * 200 == pytest.approx(squared_error(s, state.y), rel=1e-10)
    assert outcome.after > outcome.before
    gp.partial_fit(X[200:], y[200:])
    assert gp.learner_.state.count == 300
    assert gp.kernel_ == state.kernel


@indefinite
@pytest.mark.parametrize("method", ["srmf", "brmf"])
@pytest.mark.parametrize("tune", ["continuous", "hybrid"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_checkpoint_goes_on_bit_for_bit(method, tune, dtype, tmp_path):
    X, y = wave(240, q=3)
    X, y = X.astype(dtype), y.astype(dtype)
    gp = regressor(KERNELS[1], method, tune, initial_batches=2)
    for i in range(0, 180, 60):
        gp.partial_fit(X[i : i + 60], y[i : i + 60])
    gp.save(tmp_path / "model")
    other = streamgp.load(tmp_path / "model")
    assert type(other.learner_.state) is type(gp.learner_.state)
    for model in (gp, other):
        model.partial_fit(X[180:], y[180:])
    for ours, theirs in zip(*(m.predict(X[:30], return_std=True) for m in (gp, other)), strict=True):
        assert_array_equal(ours, theirs)
    assert gp.predict(X).shape == (240, 3)


@indefinite
@pytest.mark.parametrize("weights", [(0.0, 1.0), (0.0, 1.0, 1.0), (0.3, 1.0, 0.5, 0.1)])
@pytest.mark.parametrize("tune", ["continuous", "doubling"])
def test_single_rows_of_the_distance_kernel_are_learned_exactly_at_full_rank(weights, tune):
    """k(x, x) = 0: the first factor has rank 0. D̄ keeps the distances to it whole."""
    X, y = wave(70)
    gp = regressor(kernels.DistancePolynomial(weights), tune=tune, rank=70, noise=5.0)
    for i in range(70):
        gp.partial_fit(X[i : i + 1], y[i : i + 1])
        assert np.isfinite(gp.predict(X[:3])).all()
    new, kernel = wave(20, seed=1)[0], gp.kernel_
    exact = kernel.block(new, X) @ np.linalg.solve(kernel.block(X) + gp.noise_ * np.eye(70), y)
    assert_allclose(gp.predict(new), exact, atol=1e-6)
