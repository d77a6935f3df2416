"""Tables II and III as printed: the objective is the training error, and its gradient is right."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist

from conftest import DATA
from experiments.paper import polynomial
from experiments.paper.factors import mean_of, stream_of
from experiments.paper.polynomial import Distances, Parts, exact, factored, training_loss
from streamgp.datasets import load_abalone, load_arm

ARM = load_arm(1200)
PLACES = ([0.3, 2.0, 0.7], [0.0, 5.0, 9.0], [1.0, 0.0, 3.0])


def dense_loss(D, y, weights, noise):
    K = weights[0] * np.eye(len(y)) + weights[1] * D + weights[2] * D**2
    residual = y - K @ np.linalg.solve(K + noise * np.eye(len(y)), y)
    return np.log(np.mean(residual**2))


@pytest.mark.parametrize("weights", PLACES)
@pytest.mark.parametrize("noise", [1.0, 0.05])
def test_the_exact_loss_is_the_log_training_error_with_its_gradient(weights, noise):
    stream, weights = stream_of(ARM, 200), np.array(weights)
    distances = Distances(stream.X, None)
    distances.extend(slice(0, 100))
    distances.extend(slice(100, 200))
    loss = training_loss(distances, stream.y, noise)
    value, gradient = loss(weights)
    D = cdist(stream.X, stream.X)
    assert value == pytest.approx(dense_loss(D, stream.y, weights, noise), abs=1e-7)
    # Finite differences are as good as the largest component: the matrix is nearly singular at some places.
    scale = max(1.0, np.abs(gradient).max())
    assert_allclose(gradient, approx_fprime(weights, lambda a: loss(a)[0], 1e-7), atol=2e-3 * scale)


@pytest.mark.parametrize("kind", ["printed", "projected", "batch"])
@pytest.mark.parametrize("noise", [1.0, 0.1])
def test_the_factored_loss_is_the_training_error_of_the_truncated_matrix(kind, noise, monkeypatch):
    stream = stream_of(ARM, 300)
    parts = Parts(cdist(stream.X, stream.X), kind, 0)
    for end in (100, 200, 300):
        parts.advance(end)
    seen = {}
    monkeypatch.setattr(polynomial, "minimise", lambda loss, weights, most: seen.setdefault("loss", loss))
    parts.tune(stream.y, noise, 1.0, np.ones(3))
    for weights in map(np.array, PLACES[:2]):
        K = sum(a * f.dense() for a, f in zip(weights[1:], parts.found, strict=True))
        total = weights[0] + noise
        alpha = np.linalg.solve(K + total * np.eye(300), stream.y)
        value, gradient = seen["loss"](weights)
        assert value == pytest.approx(np.log(np.mean((noise * alpha) ** 2)), abs=1e-6)
        numeric = approx_fprime(weights, lambda a: seen["loss"](a)[0], 1e-7)
        assert_allclose(gradient[1:], numeric[1:], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "cross"), [("printed", "exact"), ("batch", "exact"), ("projected", "exact")]
)
def test_at_full_rank_the_factored_run_is_the_exact_one(kind, cross, monkeypatch):
    monkeypatch.setattr(polynomial.next_factor, "__defaults__", (400,))
    given = {"rows": 300, "noise": 0.01, "most": 0.0, "protocol": "labels known"}
    monkeypatch.setattr(polynomial, "minimise", lambda *_: (np.array([0.0, 2.0, 1.0]), 1))
    a = factored(ARM, kind=kind, cross=cross, seed=0, **given)["rmse"]
    b = exact(ARM, mode="continuous", **given)["rmse"]
    assert_allclose(a[1:], b[1:], rtol=1e-5)


def test_pytorch_gives_the_same_errors():
    pytest.importorskip("torch")
    given = {"rows": 500, "mode": "initial", "noise": 0.1, "most": 1.0, "protocol": "self-training"}
    host, device = exact(ARM, **given), exact(ARM, device="cpu", **given)
    assert_allclose(host["rmse"][1:], device["rmse"][1:], rtol=1e-6)


def test_untuned_from_noise_1_is_catastrophic_on_abalone_and_tuning_rescues_it():
    if not (DATA / "abalone.data").exists():
        pytest.skip(f"real data is not there: {DATA / 'abalone.data'}")
    data = load_abalone(DATA)
    given = {"rows": 1000, "noise": 1.0, "most": 1.0, "protocol": "self-training"}
    untuned, tuned = (
        mean_of(exact(data, mode=mode, **given)["rmse"]) for mode in ("no optimisation", "initial")
    )
    assert untuned > 20 > 5 > tuned
