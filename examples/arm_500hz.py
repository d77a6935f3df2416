"""A control loop with deadlines: every 2 ms predict seven torques, act, and learn what was measured."""

import argparse
import gc
import time

import numpy as np

from streamgp import StreamingGPRegressor
from streamgp.datasets import load_arm

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seconds", type=float, default=60.0, help="length of the loop (default: 60)")
parser.add_argument("--hertz", type=float, default=500.0, help="ticks a second (default: 500)")
parser.add_argument("--rank", type=int, default=100, help="inducing points (default: 100)")
parser.add_argument("--picture", help="file (.png) for the histogram of latencies; needs matplotlib")
asked = parser.parse_args()

# The arm is moved for four seconds first, as a robot is calibrated before it works: the model learns it at once.
first, ticks, tick = int(4 * asked.hertz), int(asked.seconds * asked.hertz), 1.0 / asked.hertz
arm = load_arm(first + ticks, rows_per_second=asked.hertz)
gp = StreamingGPRegressor(rank=asked.rank, members=("gp",), random_state=0)
gp.fit(arm.X[:first], arm.y[:first])
gp.set_params(tune="none")  # hyperparameters are those of the calibration: no thread competes with the loop
X, y = arm.X[first:], arm.y[first:]
gc.collect()
gc.freeze()

latency, left, k = np.full(ticks, np.nan), np.zeros((ticks, 7)), 0
start = time.perf_counter() + tick
while k < ticks:
    begins = start + k * tick
    while (wait := begins - time.perf_counter()) > 0:
        time.sleep(max(wait - 2e-4, 0.0))  # the last moments without sleeping: sleep may wake up late
    torque = gp.predict(X[k : k + 1])[0]  # feed-forward: what the motion wanted needs
    left[k] = y[k] - torque  # what a feedback controller must add
    gp.partial_fit(X[k : k + 1], y[k : k + 1])
    latency[k] = 1e3 * (time.perf_counter() - begins)
    k += max(1, int(np.ceil(1e-3 * latency[k] / tick)))  # ticks that passed meanwhile are lost

served = ~np.isnan(latency)
missed = ticks - np.sum(latency[served] <= 1e3 * tick)
share = np.sqrt((left[served] ** 2).mean(axis=0)) / y.std(axis=0)
print(f"{ticks} ticks of {1e3 * tick:g} ms: {missed} missed ({missed / ticks:.2%})")
median, slow, slower, worst = np.percentile(latency[served], [50, 99, 99.9, 100])
print(f"predict and learn, ms: median {median:.2f}, 99 % {slow:.2f}, 99.9 % {slower:.2f}, worst {worst:.1f}")
print("torque left to feedback, of its spread:", " ".join(f"{s:.3f}" for s in share))
if asked.picture:
    from matplotlib.figure import Figure

    axes = (figure := Figure((7, 3.5), layout="constrained")).subplots()
    axes.hist(latency[served], np.geomspace(0.1, max(worst, 10.0), 80), color="#36648b")
    axes.axvline(1e3 * tick, color="#b22222", label="deadline")
    axes.set(xscale="log", yscale="log", xlabel="predict and learn, ms", ylabel="ticks")
    axes.legend(frameon=False)
    figure.savefig(asked.picture, dpi=120)
