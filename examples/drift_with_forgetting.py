"""The function changes at row 3,000: with forgetting, the model follows and its intervals are calibrated again soon."""

import numpy as np

from streamgp import StreamingGPRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, (6000, 2))
y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(6000)
y[3000:] += 2 * np.cos(2 * X[3000:, 0])

for forgetting in (1.0, 0.9):
    gp = StreamingGPRegressor(rank=150, forgetting=forgetting, random_state=0)
    errors, inside = [], []
    for start in range(0, 6000, 50):
        rows, targets = X[start : start + 50], y[start : start + 50]
        if start:
            mean, low, high = gp.predict(rows, return_interval=0.9)
            errors.append(np.sqrt(np.mean((mean - targets) ** 2)))
            inside.append(np.mean((low <= targets) & (targets <= high)))
        gp.partial_fit(rows, targets)
    before, after = np.mean(errors[40:59]), np.mean(errors[-20:])
    print(
        f"forgetting {forgetting}: RMSE {before:.3f} before the change, {after:.3f} at the end; "
        f"inside 90 % intervals over the last 1,000 rows {np.mean(inside[-20:]):.1%}"
    )
