"""Coverage of 90 % intervals over the last three quarters of each stream, and in the worst window of 1,000 rows.

    python -m experiments.checks.coverage

Default settings, raw units, each batch predicted before it is learned.
"""

from __future__ import annotations

import numpy as np

from experiments.common import command, in_intervals, load
from streamgp import StreamingGPRegressor
from streamgp.datasets import inverse_dynamics, load_arm

WINDOW = 1000


def arm(kind: str, n: int = 12_000) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 21) and the second torque (n,) of an arm that picks up a load at half time or slowly stiffens."""
    data = load_arm(n)
    still = np.zeros((n, 7))
    weight = inverse_dynamics(data.X[:, :7], still, still)[:, 1]
    y = data.y[:, 1].copy()
    if kind == "abrupt":
        y[n // 2 :] += 0.5 * weight[n // 2 :]
    else:
        y += np.linspace(0, 2.0, n) * np.tanh(data.X[:, 8] / 0.1)
    return data.X, y


def covered(
    X: np.ndarray, y: np.ndarray, batch: int, *, calibrated: bool = True, **given: object
) -> np.ndarray:
    """Return whether each target lies in its interval, over the last three quarters of the rows."""
    gp = StreamingGPRegressor(random_state=0, **given)
    inside = []
    for i in range(0, len(y), batch):
        rows, targets = X[i : i + batch], y[i : i + batch]
        if i:
            inside.append(in_intervals(gp, rows, targets, calibrated=calibrated)[0])
        else:
            inside.append(np.ones(len(targets), dtype=bool))
        gp.partial_fit(rows, targets)
    return np.concatenate(inside)[len(y) // 4 :]


@command(__doc__)
def main() -> None:
    """Print a row for each stream and batch size."""
    sets = {name: load(name) for name in ("abalone", "sarcos_subset", "kin40k", "elevators")}
    print(f"{'stream':46s} {'rows':>6s} {'covered':>8s} {'worst window':>13s} {'uncalibrated':>13s}")
    for kind in ("abrupt", "slow"):
        sets[f"arm, {kind} drift"] = arm(kind)
    for name, (X, y) in sets.items():
        runs = [(100, {})]
        if "drift" in name:
            # A batch of 100 is two seconds of motion, during which intervals cannot adapt.
            runs += [(20, {}), (20, {"forgetting": 0.998})]
        for batch, more in runs:
            inside = covered(X, y, batch, **more)
            raw = covered(X, y, batch, calibrated=False, **more)
            worst = np.convolve(inside, np.ones(WINDOW) / WINDOW, "valid").min()
            label = f"{name}, batches of {batch}" + (", forgetting" if more else "")
            print(
                f"{label:46s} {len(y):6d} {inside.mean():8.1%} {worst:13.1%} {raw.mean():13.1%}", flush=True
            )


if __name__ == "__main__":
    main()
