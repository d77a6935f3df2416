"""Each method of the benchmark learns, and the exact ones agree with ours."""

import numpy as np
import pytest

from experiments.common import Hyperparameters
from experiments.peers.peers import PEERS


@pytest.mark.parametrize("name", list(PEERS))
def test_every_peer_learns_a_plain_function_and_knows_how_sure_it_is(name):
    needed = {"GPyTorch": "gpytorch", "goppy": "goppy", "river": "river"}
    for start, module in needed.items():
        if name.startswith(start):
            pytest.importorskip(module)
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (700, 2))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(700)
    peer = PEERS[name].make(Hyperparameters(1.0, np.array([1.5, 2.0]), 0.01))
    for i in (0, 500, 600):
        if i:
            mean, std = peer.predict(X[i : i + 100])
            assert mean.shape == std.shape == (100,)
            assert np.isfinite(mean).all()
            assert (std > 0).all()
        peer.learn(X[i : i + 500 if i == 0 else i + 100], y[i : i + 500 if i == 0 else i + 100])
    # A line cannot follow the sine; a variational GP has taken few steps.
    assert np.sqrt(np.mean((mean - y[600:]) ** 2)) < 0.35


@pytest.mark.parametrize(
    "name",
    ["scikit-learn, refitted", "goppy", "GPyTorch, set_train_data", "GPyTorch, get_fantasy_model"],
)
def test_exact_peers_say_what_our_exact_method_says(name):
    """Mean and deviation, noise included: a peer with another kernel, noise or memory would be another model."""
    needed = {"GPyTorch": "gpytorch", "goppy": "goppy"}
    pytest.importorskip(next((m for start, m in needed.items() if name.startswith(start)), "sklearn"))
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(300)
    given = Hyperparameters(1.7, np.array([0.8, 2.5]), 0.09)
    peer, exact = PEERS[name].make(given), PEERS["exact (nrmf)"].make(given)
    for i in range(0, 300, 100):
        for model in (peer, exact):
            if i:
                model.predict(X[i : i + 100])  # GPyTorch's fantasies need one
            model.learn(X[i : i + 100], y[i : i + 100])
    new = rng.uniform(-3, 3, (40, 2))
    for theirs, ours in zip(peer.predict(new), exact.predict(new), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-6)


def test_random_fourier_features_tend_to_the_exact_method():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (400, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(400)
    given = Hyperparameters(1.7, np.array([0.8, 2.5]), 0.09)
    peer, exact = PEERS["random Fourier 2000"].make(given), PEERS["exact (nrmf)"].make(given)
    for model in (peer, exact):
        model.learn(X, y)
    new = rng.uniform(-2, 2, (50, 2))
    for theirs, ours in zip(peer.predict(new), exact.predict(new), strict=True):
        assert np.sqrt(np.mean((theirs - ours) ** 2)) < 0.1 * np.sqrt(np.mean(ours**2))
