"""Made-up streams and measures that the points of `hostile` share."""

import numpy as np

from experiments.common import in_intervals
from streamgp import StreamingGPRegressor

SEEDS = range(5)


def smooth(
    n: int, seed: int, d: int = 4, shift: float = 0.0, low: float = -2.0, high: float = 2.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, d) uniform between low and high and a smooth target with noise 0.1, shifted."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(low, high, (n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n) + shift


def linear(n: int, seed: int, d: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, d) and a linear target with noise 0.1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ np.linspace(0.2, 1.0, d) + 0.1 * rng.standard_normal(n)


def noise(n: int, seed: int, d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, d) and a target that does not depend on it."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-2, 2, (n, d)), rng.standard_normal(n)


def outliers(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the smooth stream, noise of deviation 20 added to 2 % of its targets."""
    X, y = smooth(n, seed)
    rng = np.random.default_rng([seed, 1])
    hit = rng.random(n) < 0.02
    y[hit] += 20 * rng.standard_normal(int(hit.sum()))
    return X, y


def learn(gp: StreamingGPRegressor, X: np.ndarray, y: np.ndarray, size: int = 50) -> StreamingGPRegressor:
    """Return the regressor after it learned the rows in batches."""
    for i in range(0, len(X), size):
        gp.partial_fit(X[i : i + size], y[i : i + size])
    return gp


def coverage(gp: StreamingGPRegressor, X: np.ndarray, y: np.ndarray, **how: object) -> tuple[float, float]:
    """Return the share of targets inside their 90 % intervals, and the mean width."""
    inside, width = in_intervals(gp, X, y, **how)
    return float(inside.mean()), float(width.mean())


def rmse(gp: StreamingGPRegressor, X: np.ndarray, y: np.ndarray) -> float:
    """Return the root mean squared error of predictions."""
    return float(((gp.predict(X) - y) ** 2).mean() ** 0.5)
