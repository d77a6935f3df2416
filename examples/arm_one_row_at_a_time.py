"""Predict the seven torques of a robot arm, then learn the measured ones, one row at a time."""

import time

import numpy as np

from streamgp import StreamingGPRegressor
from streamgp.datasets import load_arm

ROWS = 3000

arm = load_arm(ROWS)
gp = StreamingGPRegressor(rank=200, random_state=0)
gp.partial_fit(arm.X[:200], arm.y[:200])  # enough rows to estimate length-scales from

squared_error, inside, slowest = np.zeros(7), 0.0, 0.0
for x, torque in zip(arm.X[200:], arm.y[200:], strict=True):
    began = time.perf_counter()
    mean, low, high = gp.predict(x[None], return_interval=0.9)
    gp.partial_fit(x[None], torque[None])
    slowest = max(slowest, time.perf_counter() - began)
    squared_error += (mean[0] - torque) ** 2
    inside += np.mean((low[0] <= torque) & (torque <= high[0]))

n = ROWS - 200
print("RMSE / spread of each torque:", np.round(np.sqrt(squared_error / n) / arm.y.std(axis=0), 3))
print(f"inside 90 % intervals: {inside / n:.1%}")
print(f"slowest row, tuning included: {1e3 * slowest:.0f} ms")
