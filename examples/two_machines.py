"""Two machines learn from streams of their own; merging gives the model of both streams."""

import numpy as np

from streamgp import StreamingGPRegressor
from streamgp.kernels import SquaredExponential

rng = np.random.default_rng(1)


def truth(X):
    return np.sin(2 * X[:, 0]) + np.cos(X[:, 1])


def rows(low, high):
    X = np.column_stack([rng.uniform(low, high, 2000), rng.uniform(-2, 2, 2000)])
    return X, truth(X) + 0.1 * rng.standard_normal(2000)


# Merging needs the same kernel; each machine sees one half of the input space.
left, right = (
    StreamingGPRegressor(SquaredExponential([0.8, 1.2]), noise=0.01, tune="none", rank=150, random_state=i)
    for i in range(2)
)
for gp, (X, y) in ((left, rows(-3, 0)), (right, rows(0, 3))):
    for i in range(0, 2000, 100):
        gp.partial_fit(X[i : i + 100], y[i : i + 100])

X = np.column_stack([rng.uniform(-3, 3, 1000), rng.uniform(-2, 2, 1000)])
alone = [np.sqrt(np.mean((gp.predict(X) - truth(X)) ** 2)) for gp in (left, right)]
left.merge(right)
both = np.sqrt(np.mean((left.predict(X) - truth(X)) ** 2))
print(f"RMSE over both halves: left {alone[0]:.3f}, right {alone[1]:.3f}, merged {both:.3f}")
