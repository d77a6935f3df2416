"""Outputs that share statistics: each is fitted as if it were alone, by few factorisations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from streamgp.gp.normal_equations import NormalEquations
from streamgp.gp.outputs import MOST_FACTORS, SHARED_WITHIN, Groups, per_output
from streamgp.gp.posterior import Conditioned, Posterior
from streams import random_rows, statistics_of

APART = [np.array([0.02, 3.0]), np.array([5.0, 0.1, 5.0, 0.001]), np.array([0.3])]
NEAR = [np.array([0.3, 0.33, 0.4]), np.geomspace(0.01, 10.0, 7), np.array([1e-3, 1.0, 0.5, 2.0])]
noises = st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=9).map(np.array)


@given(noises)
def test_groups_are_few_and_join_only_what_is_near_or_must_be(noise):
    groups = Groups.of(noise)
    assert len(groups.noises) <= MOST_FACTORS
    for g, shared in enumerate(groups.noises):
        own = noise[groups.outputs(g)]
        assert own.min() * (1 - 1e-12) <= shared <= own.max() * (1 + 1e-12)
        # A group is wider than it may be only where there is no room for another.
        assert own.max() <= SHARED_WITHIN * own.min() * (1 + 1e-12) or len(groups.noises) == MOST_FACTORS
    # A greater noise is never in a group of less noise.
    assert (np.diff(np.array(groups.members)[np.argsort(noise, kind="stable")]) >= 0).all()


@given(noises)
def test_groups_put_columns_back_where_they_were(noise):
    for groups in (Groups.of(noise), Groups.apart(noise)):
        values = np.arange(3.0 * noise.size).reshape(3, -1)
        pieces = [groups.columns(values, g) for g in range(len(groups.noises))]
        assert_array_equal(groups.joined(pieces), values)
        assert_array_equal(groups.each([np.full(2, ρ) for ρ in groups.noises])[0], groups.noise)
    assert_array_equal(Groups.apart(noise).noise, noise)


def test_equal_noises_are_one_group_to_the_last_bit():
    assert Groups.of(per_output(0.1 + 0.2, 5)) == Groups((0.1 + 0.2,), (0,) * 5)


@pytest.mark.parametrize("noise", APART, ids=str)
def test_outputs_whose_noises_differ_are_fitted_as_if_each_were_alone(noise):
    q = noise.size
    (F, y), (G, z), (new, _) = random_rows(40, 8, q, 0), random_rows(9, 8, q, 1), random_rows(5, 8, q, 2)
    prior = np.full(5, 20.0)
    posterior = Posterior(statistics_of(F, y), noise)
    given = Conditioned.on(posterior, G[:4], z[:4]).add(G[4:], z[4:])
    mean, spread = given.predict(new)
    left = posterior.left_out(F, y, np.full(40, 2.0))
    total = 0.0
    for j in range(q):
        alone = Posterior(statistics_of(F, y[:, j : j + 1]), noise[j])
        assert_allclose(posterior.mean(new)[:, j], alone.mean(new)[:, 0], rtol=1e-11)
        assert_allclose(posterior.variance(new, prior)[:, j], alone.variance(new, prior)[:, 0], rtol=1e-11)
        covariance = alone.covariance(new, np.diag(prior))[0]
        assert_allclose(posterior.covariance(new, np.diag(prior))[j], covariance, atol=1e-11)
        left_alone = alone.left_out(F, y[:, j : j + 1], np.full(40, 2.0))
        assert_allclose(left.error[:, j], left_alone.error[:, 0], rtol=1e-9)
        assert_allclose(left.variance[:, j], left_alone.variance[:, 0], rtol=1e-9)
        both = Posterior(alone.statistics.add(G, z[:, j : j + 1], 0.0), noise[j])
        assert_allclose(mean[:, j], both.mean(new)[:, 0], rtol=1e-9)
        unexplained = prior - (new**2).sum(axis=1)
        assert_allclose(unexplained + spread[:, j], both.variance(new, prior)[:, 0], rtol=1e-9)
        assert_allclose(given.weights[:, j], both.weights[:, 0], rtol=1e-9, atol=1e-12)
        total += alone.log_evidence
    assert_array_equal(left.noise, noise)
    assert posterior.log_evidence == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("noise", [*APART, *NEAR], ids=str)
def test_the_evidence_of_outputs_is_that_of_each_with_its_own_noise(noise):
    F, y = random_rows(30, 6, noise.size, 0)
    alone = [Posterior(statistics_of(F, y[:, j : j + 1]), noise[j]).log_evidence for j in range(noise.size)]
    assert Posterior(statistics_of(F, y), noise).log_evidence == pytest.approx(sum(alone), rel=1e-11)


@pytest.mark.parametrize(("noise", "share"), [(NEAR[0], 1e-4), (NEAR[1], 0.1), (NEAR[2], 0.02)], ids=str)
def test_outputs_that_share_a_factor_keep_the_mean_of_their_own_noise(noise, share):
    """To a share of the posterior's own deviation, on statistics whose eigenvalues span eight decades."""
    rng, q = np.random.default_rng(0), noise.size
    F = rng.standard_normal((300, 25)) * np.geomspace(1.0, 1e-4, 25)
    y = F @ rng.standard_normal((25, q)) + np.sqrt(noise) * rng.standard_normal((300, q))
    posterior = Posterior(statistics_of(F, y), noise)
    assert len(posterior.factors) < q
    for j in range(q):
        alone = Posterior(statistics_of(F, y[:, j : j + 1]), noise[j])
        deviation = np.sqrt(noise[j] * np.array([alone.factors[0].leverage(F)]).T)
        away = np.abs(posterior.mean(F)[:, j : j + 1] - alone.mean(F))
        assert (away <= share * deviation).all()


def test_an_indefinite_kernel_takes_outputs_with_noises_that_differ():
    F, y = random_rows(30, 4, 2, 0)
    J, noise = np.array([1.0, -1.0, 1.0, 1.0]), np.array([0.3, 40.0])
    F[:, 1] *= 0.02
    posterior = Posterior(NormalEquations(F.T @ F, F.T @ y, y.T @ y, 30, 0.0, J), noise)
    for j in range(2):
        K = (F * J) @ F.T
        expected = K @ np.linalg.solve(K + noise[j] * np.eye(30), y[:, j])
        assert_allclose(posterior.mean(F)[:, j], expected, atol=1e-9)
