"""Counts: the model of one pass beside a Gaussian process that sees all rows at once, and beside a linear regression.

    python -m experiments.peers.count_models [SET ...]

"poisson" and "dispersed" are drawn from a known function of two features; "visits" are visits to a doctor in the RAND
health insurance experiment (Deb & Trivedi, 2002; needs statsmodels, which ships them). 300 rows are learned, ours in
batches of 100, and 1,500 others predicted; the last line of "visits" has learned 5,000. Prints, for Poisson and
negative binomial, the mean negative log density of the held-out counts with the function integrated out, the root
mean square error of their means, and the share of counts inside 90 % intervals.

The batch solution is Laplace's: Rasmussen & Williams (2006), algorithms 3.1 and 5.1, with a squared exponential, a
length-scale for each feature, a level, and a dispersion, that maximise its evidence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from sklearn.linear_model import PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.common import command, parts_argument
from streamgp import StreamingGPRegressor
from streamgp.likelihoods import LIKELIHOODS
from streamgp.likelihoods.counts import Counts

LEARNED, HELD, BATCH, MORE = 300, 1500, 100, 5_000
DISPERSION = 2.0
# What a Laplace posterior and its evidence are found with.
NEWTON, STEPS = 50, 20


def drawn(*, dispersed: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, counts, and the function f that they come from, of rates about 3."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (LEARNED + HELD, 2))
    f = 1.0 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    gamma = rng.gamma(DISPERSION, 1 / DISPERSION, len(f)) if dispersed else 1.0
    return X, rng.poisson(np.exp(f) * gamma).astype(float), f


def visits() -> tuple[np.ndarray, np.ndarray, None]:
    """Return features and the number of visits to a doctor, shuffled."""
    import statsmodels.datasets

    table = statsmodels.datasets.randhie.load_pandas()
    order = np.random.default_rng(0).permutation(len(table.endog))
    return table.exog.to_numpy(float)[order], table.endog.to_numpy(float)[order], None


SETS: dict[str, Callable[[], Any]] = {
    "poisson": lambda: drawn(dispersed=False),
    "dispersed": lambda: drawn(dispersed=True),
    "visits": visits,
}


def report(name: str, label: str, likelihood: Counts, f: Any, variance: Any, y: np.ndarray) -> None:
    """Print a line: f has this mean and variance at the rows of the counts y (n,)."""
    f, variance = np.asarray(f, dtype=float), np.maximum(variance, 1e-12) * np.ones(len(y))
    loss = -float(np.mean(likelihood.tilted(y, f, variance).log_z))
    away = float(np.sqrt(np.mean((likelihood.observed(f, variance).mean - y) ** 2)))
    lower, upper = (likelihood.quantile(p, f, variance) for p in (0.05, 0.95))
    inside = float(((lower <= y) & (y <= upper)).mean())
    kind = type(likelihood).__name__
    print(f"| {name} | {kind} | {label} | {loss:.4f} | {away:.3f} | {inside:.1%} |", flush=True)


class LaplaceGP:
    """Batch Gaussian process under a likelihood of counts."""

    def __init__(self, X: np.ndarray, y: np.ndarray, likelihood: Counts) -> None:
        self.middle, self.size = X.mean(axis=0), np.maximum(X.std(axis=0), 1e-9)
        self.X, self.y, self.likelihood = self.scaled(X), y, likelihood
        d = X.shape[1]
        start = np.concatenate([np.full(d, 0.5 * np.log(d)), [0.0, np.log(y.mean())], likelihood.parameters])
        bounds = [(-3.0, 5.0)] * d + [(-6.0, 3.0), (-5.0, 5.0), *likelihood.ranges]
        options = {"maxiter": STEPS}
        self.place = scipy.optimize.minimize(
            lambda place: -self.evidence(place), start, method="L-BFGS-B", bounds=bounds, options=options
        ).x
        self.evidence(self.place)

    def scaled(self, X: np.ndarray) -> np.ndarray:
        """Return features of mean zero and deviation one."""
        return (X - self.middle) / self.size

    def block(self, place: np.ndarray, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Return the kernel between X (n, d) and Z (m, d)."""
        d = X.shape[1]
        X, Z = X / np.exp(place[:d]), Z / np.exp(place[:d])
        apart = (X**2).sum(axis=1)[:, None] + (Z**2).sum(axis=1) - 2 * X @ Z.T
        return np.exp(place[d] - 0.5 * np.maximum(apart, 0.0))

    def evidence(self, place: np.ndarray) -> float:
        """Return the approximate log evidence, and keep the mode; Newton's steps are halved until they rise."""
        d = self.X.shape[1]
        self.likelihood, self.level = self.likelihood.with_parameters(place[d + 2 :]), place[d + 1]
        K = self.block(place, self.X, self.X) + 1e-8 * np.eye(len(self.y))
        a = np.zeros_like(self.y)

        def height(a: np.ndarray) -> float:
            f = K @ a
            density = float(self.likelihood.log_density(self.y, f + self.level).sum())
            return density - 0.5 * float(a @ f)

        top = height(a)
        for _ in range(NEWTON):
            f = K @ a
            slope, w = self.likelihood.slopes(self.y, f + self.level)
            root, b = np.sqrt(w), w * f + slope
            L = np.linalg.cholesky(np.eye(len(f)) + root[:, None] * K * root)
            step = b - root * scipy.linalg.cho_solve((L, True), root * (K @ b)) - a
            while (new := height(a + step)) < top and np.abs(step).max() > 1e-10:
                step = 0.5 * step
            a, rise, top = a + step, new - top, new
            if rise < 1e-6:
                break
        f = K @ a
        slope, w = self.likelihood.slopes(self.y, f + self.level)
        self.root, self.slope = np.sqrt(w), slope
        self.L = np.linalg.cholesky(np.eye(len(f)) + self.root[:, None] * K * self.root)
        return top - float(np.log(self.L.diagonal()).sum())

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of f at the rows X (m, d), (m,) each."""
        cross = self.block(self.place, self.X, self.scaled(X))
        half = scipy.linalg.solve_triangular(self.L, self.root[:, None] * cross, lower=True)
        prior = np.exp(self.place[self.X.shape[1]])
        return self.level + cross.T @ self.slope, prior - (half**2).sum(axis=0)


def streamed(name: str, X: np.ndarray, y: np.ndarray) -> StreamingGPRegressor:
    """Return our model after one pass."""
    gp = StreamingGPRegressor(likelihood=name, random_state=0)
    for i in range(0, len(y), BATCH):
        gp.partial_fit(X[i : i + BATCH], y[i : i + BATCH])
    return gp


def best_dispersion(likelihood: Counts, f: np.ndarray, y: np.ndarray) -> Counts:
    """Return the likelihood with the parameters that give the counts y (n,) of known f (n,) the highest density."""
    if not likelihood.ranges:
        return likelihood

    def loss(place: float) -> float:
        return -float(likelihood.with_parameters(np.array([place])).log_density(y, f).mean())

    found = scipy.optimize.minimize_scalar(loss, bounds=likelihood.ranges[0], method="bounded").x
    return likelihood.with_parameters(np.array([found]))


def compare(name: str) -> None:
    """Print the lines of a set."""
    X, y, f = SETS[name]()
    at, counts = slice(LEARNED, LEARNED + HELD), y[LEARNED : LEARNED + HELD]
    linear = make_pipeline(StandardScaler(), PoissonRegressor(alpha=1e-3, max_iter=1000))
    linear.fit(X[:LEARNED], y[:LEARNED])
    for kind in ("poisson", "negative_binomial"):
        gp = streamed(kind, X[:LEARNED], y[:LEARNED])
        mean, std = gp.predict(X[at], return_std=True, latent=True)
        report(name, "StreamingGPRegressor, one pass", gp.likelihood_, mean, std**2, counts)
        batch = LaplaceGP(X[:LEARNED], y[:LEARNED], LIKELIHOODS[kind]())
        report(name, "batch GP, Laplace", batch.likelihood, *batch.predict(X[at]), counts)
        known = np.log(linear.predict(X[:LEARNED]))
        fitted = best_dispersion(LIKELIHOODS[kind](), known, y[:LEARNED])
        report(name, "PoissonRegressor", fitted, np.log(linear.predict(X[at])), 0.0, counts)
        if f is not None:
            true = best_dispersion(LIKELIHOODS[kind](), f[:LEARNED], y[:LEARNED])
            report(name, "the function itself", true, f[at], 0.0, counts)
        else:
            more = np.delete(np.arange(len(y)), np.arange(LEARNED, LEARNED + HELD))[:MORE]
            gp = streamed(kind, X[more], y[more])
            mean, std = gp.predict(X[at], return_std=True, latent=True)
            report(name, f"one pass over {len(more):,} rows", gp.likelihood_, mean, std**2, counts)


@command(__doc__)
@parts_argument(list(SETS))
def main(parts: tuple[str, ...]) -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    print("| set | likelihood | model | loss | RMSE | inside |\n|---|---|---|---|---|---|")
    for name in parts:
        compare(name)


if __name__ == "__main__":
    main()
