"""SiteState: pseudo-observations of unequal weight are learned as a Gaussian process with noise of each row would."""

import numpy as np
import pytest

from streamgp.kernels import Constant, SquaredExponential, Sum
from streamgp.methods.pivot_state import PivotedConfig
from streamgp.methods.sites import SiteState

KERNEL = Sum((2.0 * SquaredExponential([0.9, 1.4]), Constant(0.5)))
RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (60, 2))
Z = np.sin(X[:, 0]) + X[:, 1]
W = np.exp(RNG.normal(0, 1.5, 60))
NEW = RNG.uniform(-2, 2, (20, 2))


def empty(rank=60, noise=1.0, dtype=np.float64):
    config = PivotedConfig(rank, window_size=500, tolerance=None, seed=0)
    none = np.zeros((0, 2), dtype=dtype)
    return SiteState.empty(config, KERNEL, np.full(1, noise), none, np.zeros((0, 1)))


def learned(state, sizes, X=X):
    start = 0
    for size in sizes:
        rows = slice(start, start + size)
        state, prior = state.before(X[rows])
        state = state.with_sites(prior, Z[rows], W[rows])
        start += size
    return state


def exact(new):
    K, C = KERNEL.block(X), KERNEL.block(new, X)
    S = np.linalg.inv(K + np.diag(1 / W))
    return C @ S @ Z, KERNEL.diag(new) - np.einsum("ij,jk,ik->i", C, S, C)


@pytest.mark.parametrize("noise", [1.0, 0.05])
@pytest.mark.parametrize("sizes", [[60], [30, 30], [50] + [1] * 10, [20] + [7] * 5 + [1] * 5])
def test_at_full_rank_it_is_the_exact_gaussian_process_with_noise_of_each_row(sizes, noise):
    mean, variance = learned(empty(noise=noise), sizes).latent(NEW)
    wanted, spread = exact(NEW)
    # Inducing points stop where 6e-5 of the prior variance is left.
    assert np.abs(mean - wanted).max() < 5e-3
    assert np.abs(variance - spread).max() < 2e-3


def test_what_it_says_before_it_learns_rows_is_their_joint_prediction():
    state, prior = learned(empty(), [60]).before(NEW)
    mean, variance = state.latent(NEW)
    assert np.allclose(prior.mean, mean)
    assert np.allclose(prior.covariance.diagonal(), variance, atol=1e-9)
    assert np.linalg.eigvalsh(prior.covariance).min() > -1e-9


def test_rows_that_the_inducing_points_do_not_explain_still_tell_of_each_other():
    far = NEW + 40.0
    _, prior = learned(empty(rank=5), [60]).before(far)
    own = KERNEL.block(far)
    assert np.corrcoef(prior.covariance.ravel(), own.ravel())[0, 1] > 0.99


def test_single_rows_wait_and_are_known_meanwhile():
    state = learned(empty(), [50] + [1] * 10)
    assert state.pending.count > 0
    assert np.allclose(state.latent(NEW)[0], state.folded.latent(NEW)[0], atol=1e-8)
    assert np.allclose(state.latent(NEW)[1], state.folded.latent(NEW)[1], atol=1e-8)


@pytest.mark.parametrize("noise", [1.0, 0.2])
def test_what_few_inducing_points_leave_of_a_row_weakens_its_site_alone(noise):
    """FITC: without it many sure rows at one place would make the features sure of what they do not see."""
    state = learned(empty(rank=4, noise=noise), [60])
    F, G = state.features.transform(X), state.features.transform(NEW)
    inverse = 1 / (1 / W + KERNEL.diag(X) - (F * F).sum(axis=1))
    M = np.eye(4) + (F.T * inverse) @ F
    mean, variance = state.latent(NEW)
    assert np.allclose(mean, G @ np.linalg.solve(M, F.T @ (inverse * Z)), atol=1e-9)
    left = KERNEL.diag(NEW) - (G * G).sum(axis=1)
    assert np.allclose(variance, left + (G * np.linalg.solve(M, G.T).T).sum(axis=1), atol=1e-9)


def test_rows_in_single_precision_stay_so():
    state = learned(empty(dtype=np.float32), [30, 30], X.astype(np.float32))
    assert state.features.Z.dtype == np.float32
    assert np.abs(state.latent(NEW.astype(np.float32))[0] - exact(NEW)[0]).max() < 1e-2
