"""Objectives of tuning: values and gradients, on a sample and on statistics."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import NumericalError
from streamgp.gp.normal_equations import NormalEquations
from streamgp.parameters import OBJECTIVES
from streamgp.tuning.objectives import SampleObjective, StatisticsObjective
from streams import (
    PARTS,
    plane,
)

DEFINITE = [
    1.7 * kernels.SquaredExponential([0.5, 0.9, 2.0]),
    0.4 * kernels.Matern(1.1, nu=1.5) + kernels.Linear(2.0),
    kernels.WeightedSum(PARTS, (0.3, 1.2, 0.1)),
    kernels.BrownianPolynomial((0.0, 0.7, 0.2)),
]
INDEFINITE = [kernels.DistancePolynomial((0.0, 0.03, 0.01))]


def slopes(value, theta, step=1e-5):
    """Central differences; their error is about step² and eps/step, both near 1e-10."""
    return np.array([(value(theta + h) - value(theta - h)) / (2 * step) for h in step * np.eye(theta.size)])


@pytest.mark.parametrize("kernel", DEFINITE + INDEFINITE, ids=str)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("q", [1, 2])
def test_the_gradient_on_rows_is_that_of_the_value(kernel, objective, q):
    X, y = wave(40, q=q)
    noise = 0.3
    if not kernel.positive_semidefinite:
        if objective == "loo":
            with pytest.raises(NumericalError):
                SampleObjective(X, y, objective)(kernel, noise)
            return
        noise = 9.0  # above the negative eigenvalues
    theta = np.append(kernel.theta, np.log(noise))

    def value(t):
        return SampleObjective(X, y, objective)(kernel.with_theta(t[:-1]), np.exp(t[-1])).value

    expected = slopes(value, theta)
    if objective == "training_error":
        expected[-1] = 0.0
    assert_allclose(SampleObjective(X, y, objective)(kernel, noise).gradient, expected, atol=1e-7)


@pytest.mark.parametrize("kernel", DEFINITE, ids=str)
def test_evidence_and_held_back_density_on_rows_are_what_the_words_say(kernel):
    X, y = wave(30, q=2)
    fit = SampleObjective(X, y, "evidence")(kernel, 0.2)
    C = kernel.block(X) + 0.2 * np.eye(30)
    dense = sum(
        -0.5 * (c @ np.linalg.solve(C, c) + np.linalg.slogdet(C)[1] + 30 * np.log(2 * np.pi)) for c in y.T
    )
    assert fit.value == pytest.approx(dense / 60, rel=1e-10)
    densities = []
    for i in range(30):
        rest = [j for j in range(30) if j != i]
        solved = np.linalg.solve(C[np.ix_(rest, rest)], C[rest, i])
        variance = C[i, i] - C[rest, i] @ solved
        error = y[i] - solved @ y[rest]
        densities.append(-0.5 * (error**2 / variance + np.log(2 * np.pi * variance)))
    assert fit.held_out == pytest.approx(np.mean(densities), rel=1e-9)
    assert SampleObjective(X, y, "loo")(kernel, 0.2).value == pytest.approx(np.mean(densities), rel=1e-9)


def mixture(indefinite, seed=0, n=60, q=2):
    rng = np.random.default_rng(seed)
    parts = np.repeat([0, 1, 2], [4, 5, 3])
    F, y, signs = rng.standard_normal((n, 12)), rng.standard_normal((n, q)), np.ones(12)
    amounts, noise = np.array([0.5, 1.3, 0.2]), 0.3
    if indefinite:
        signs[[2, 7]] = -1
        amounts, noise = 0.01 * amounts, 3.0
    statistics = NormalEquations(F.T @ F, F.T @ y, y.T @ y, n, 0.0, signs)
    C = (F * (amounts[parts] * signs)) @ F.T + noise * np.eye(n)
    return statistics, parts, amounts, noise, C, y


@pytest.mark.parametrize("indefinite", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_weights_are_judged_from_statistics_as_from_the_rows(indefinite, objective):
    statistics, parts, amounts, noise, C, y = mixture(indefinite)
    judge = StatisticsObjective(statistics, parts, objective)
    n, q = y.shape
    inverse = np.linalg.inv(C)
    alpha = inverse @ y
    gcv = -0.5 * np.log(n * (alpha**2).sum() / q / np.trace(inverse) ** 2)
    expected = {
        "evidence": -0.5
        * ((y * alpha).sum() + q * (np.linalg.slogdet(C)[1] + n * np.log(2 * np.pi)))
        / (n * q),
        "loo": gcv,
        "training_error": -0.5 * ((noise * alpha) ** 2).sum() / (n * q),
    }
    kernel = kernels.WeightedSum(PARTS, amounts)
    worth = judge(kernel, noise)
    assert worth.value == pytest.approx(expected[objective], rel=1e-10)
    assert worth.held_out == pytest.approx(gcv, rel=1e-10)
    theta = np.log(np.append(amounts, noise))
    gradient = slopes(lambda t: judge(kernel.with_theta(t[:-1]), np.exp(t[-1])).value, theta)
    if objective == "training_error":
        gradient[-1] = 0.0
    assert_allclose(worth.gradient, gradient, atol=1e-8)


def test_an_indefinite_matrix_has_no_evidence_however_many_eigenvalues_are_negative():
    X, y = plane(200)
    kernel, noise = kernels.DistancePolynomial((0.0, 1.0, 1.0)), 10.66735
    negative = (np.linalg.eigvalsh(kernel.block(X) + noise * np.eye(200)) < 0).sum()
    assert negative >= 2
    with pytest.raises(NumericalError):
        SampleObjective(X, y[:, None], "evidence")(kernel, noise)
    gp = StreamingGPRegressor(kernel, noise=noise, method="nrmf", tune="none").fit(X, y)
    assert gp.log_evidence() == -np.inf
