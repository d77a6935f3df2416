"""
Learning the inverse dynamics of an arm while it moves
======================================================

A seven-joint arm follows a path under computed-torque control: for each wanted position, velocity and acceleration the
controller must know the torques *before* it sends them. The model from the drawing board knows the links, not the
friction, and not what the hand will pick up. Here a GP learns the difference while the arm moves, 50 rows a second,
with an interval for every torque.

The arm is simulated (recursive Newton–Euler, viscous and Coulomb friction, noisy torque sensors), so that the page runs
anywhere; yours would send the same 21 numbers: seven positions, seven velocities, seven accelerations.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import streamgp
from streamgp import StreamingGPRegressor
from streamgp.datasets import inverse_dynamics, load_arm

HERTZ, SECOND = 50, 50  # rows a second
SHOULDER, ELBOW = 1, 3
plt.rcParams.update({"figure.figsize": (9, 3.2), "axes.grid": True, "grid.alpha": 0.3, "font.size": 10})

# %%
# A minute without a load, then the hand picks up two kilograms
# --------------------------------------------------------------
#
# The drawing board gives the torques of the rigid links. What the sensors say beyond that is friction and, from the
# second minute on, the load.

empty = load_arm(60 * HERTZ)
loaded = load_arm(60 * HERTZ, start=60 * HERTZ, payload=2.0)
X, torque = np.vstack([empty.X, loaded.X]), np.vstack([empty.y, loaded.y])
drawing_board = inverse_dynamics(X[:, :7], X[:, 7:14], X[:, 14:])
unknown = torque - drawing_board
seconds = np.arange(len(X)) / HERTZ

figure, axes = plt.subplots(layout="constrained")
axes.plot(seconds, torque[:, SHOULDER], color="black", linewidth=0.8, label="measured")
axes.plot(seconds, drawing_board[:, SHOULDER], "--", color="#D55E00", linewidth=0.8, label="drawing board")
axes.axvline(60, color="#CC79A7", linewidth=2, label="picks up 2 kg")
axes.set(xlabel="seconds", ylabel="shoulder torque, N m", xlim=(0, 120))
axes.legend(ncols=3, loc="upper left")
axes.set_ylim(top=1.3 * torque[:, SHOULDER].max())

# %%
# Predict, move, learn
# --------------------
#
# Ten rows at a time, a fifth of a second of motion: the controller asks for the torques of the next ten, the arm moves,
# the sensors say what they were. ``forgetting`` lets the past fade, or the first minute would outvote the load for ever.


def follow(gp, targets, batch=10):
    """Predict each batch before it is learned; give means and both ends of the 90 % intervals."""
    said = []
    for start in range(0, len(X), batch):
        rows = slice(start, start + batch)
        if start == 0:
            nothing = np.zeros_like(targets[rows])
            said.append((nothing, nothing - np.inf, nothing + np.inf))
        else:
            said.append(gp.predict(X[rows], return_interval=0.9))
        gp.partial_fit(X[rows], targets[rows])
    return (np.concatenate(part) for part in zip(*said, strict=True))


learned = StreamingGPRegressor(rank=200, forgetting=0.99, random_state=0)
mean, low, high = follow(learned, unknown)
stubborn = StreamingGPRegressor(rank=200, random_state=0)
mean_of_stubborn, *_ = follow(stubborn, unknown)

figure, panels = plt.subplots(1, 3, sharey=True, figsize=(9, 3.4), layout="constrained")
for axes, (begin, title) in zip(
    panels, {1: "the first seconds", 50: "after 50 s", 60: "the load is picked up"}.items(), strict=True
):
    part = slice(begin * HERTZ, (begin + 8) * HERTZ)
    axes.fill_between(
        seconds[part], low[part, ELBOW], high[part, ELBOW], color="#56B4E9", alpha=0.5, label="90 % interval"
    )
    axes.plot(seconds[part], unknown[part, ELBOW], ".", color="black", markersize=2, label="measured")
    axes.plot(seconds[part], mean[part, ELBOW], color="#0072B2", label="predicted")
    axes.set(title=title, xlabel="seconds")
panels[0].set(
    ylabel="elbow, beyond the\ndrawing board, N m",
    ylim=np.array([-1.25, 1.25]) * np.abs(unknown[:, ELBOW]).max(),
)
panels[0].legend(fontsize=8, loc="lower right")

# %%
# How wrong, over time
# --------------------
#
# Root-mean-square error over all seven joints, each in units of its own torque's spread, over the last second. The
# sensors' noise is the floor.


def over_a_second(errors):
    squares = ((errors / torque.std(axis=0)) ** 2).mean(axis=1)
    return np.sqrt(squares.reshape(-1, SECOND).mean(axis=1))


curves = {
    "drawing board alone": (over_a_second(unknown), "#D55E00", "--"),
    "with a GP that keeps everything": (over_a_second(unknown - mean_of_stubborn), "#009E73", "-."),
    "with a GP that forgets": (over_a_second(unknown - mean), "#0072B2", "-"),
}
floor = np.sqrt(
    np.mean(((load_arm(6000, noise=0.2).y - load_arm(6000, noise=0.0).y) / torque.std(axis=0)) ** 2)
)
figure, axes = plt.subplots(layout="constrained")
for label, (errors, colour, dash) in curves.items():
    axes.semilogy(np.arange(len(errors)) + 1, errors, dash, color=colour, label=label)
axes.axhline(floor, color="black", linestyle=":", label="noise of the sensors")
axes.axvline(60, color="#CC79A7", linewidth=2)
axes.set(xlabel="seconds", ylabel="error / spread", xlim=(0, 120))
axes.legend(ncols=2, fontsize=8)

last = slice(-30, None)
for label, (errors, *_) in curves.items():
    print(f"{label:32s} error over the last 30 s {np.sqrt(np.mean(errors[last] ** 2)):.3f}")
inside = (low <= unknown) & (unknown <= high)
print(
    f"inside the 90 % intervals: {inside[500:3000].mean():.1%} before the load, {inside[3500:].mean():.1%} from 10 s after it on"
)

# %%
# A collision is a torque that the model does not expect
# -------------------------------------------------------
#
# For half a second somebody leans on the elbow. No threshold in newton metres has to be found for each joint: the
# interval knows how far off an honest torque may be. With ``guard`` such rows are refused, so that the model does not learn
# the collision.

watched = StreamingGPRegressor(rank=200, guard=6, random_state=0)
watched.partial_fit(X[:2000], unknown[:2000])
pushed = unknown[2000:2400].copy()
pushed[200:225, ELBOW] += 4.0
alarms, distance = [], []
for start in range(0, 400, 5):
    rows = slice(2000 + start, 2005 + start)
    guess, low_end, high_end = watched.predict(X[rows], return_interval=0.9)
    distance.append((np.abs(pushed[start : start + 5] - guess) / (high_end - guess)).max(axis=1))
    before = watched.n_refused_
    watched.partial_fit(X[rows], pushed[start : start + 5])
    alarms.append(watched.n_refused_ - before)
distance = np.concatenate(distance)

figure, axes = plt.subplots(layout="constrained")
at = 40 + np.arange(400) / HERTZ
axes.plot(at, distance, color="#0072B2", label="worst joint: error over half an interval")
axes.axhline(1, color="black", linestyle=":", label="edge of the 90 % interval")
axes.axvspan(44, 44.5, color="#D55E00", alpha=0.25, label="somebody leans on the elbow")
axes.set(xlabel="seconds", ylabel="distance", xlim=(40, 48))
axes.legend(fontsize=8)
print(
    f"rows refused during the push: {sum(alarms[40:45])} of 25; outside of it: {sum(alarms) - sum(alarms[40:45])} of 375"
)

# %%
# Does it keep up?
# ----------------
#
# One row at a time, predicted and learned, against the 20 ms that this arm leaves. Now and then hyperparameters are tuned, at
# first often and then each time the rows have doubled: ``tune="none"`` after a first minute, or a model that learns in
# another thread, where a controller cannot wait.

learned.set_params(tune="none")
took = []
for x, target in zip(X[-500:], unknown[-500:], strict=True):
    began = time.perf_counter()
    learned.predict(x[None], return_interval=0.9)
    learned.partial_fit(x[None], target[None])
    took.append(1e3 * (time.perf_counter() - began))
print(f"a row: median {np.median(took):.1f} ms, slowest of 500 {max(took):.1f} ms; the arm leaves 20 ms")

# %%
# Switch it off, and on again
# ---------------------------
#
# What was learned is a file of its own, without pickle, and goes on where it stopped, bit for bit.

learned.save("arm.gp")
tomorrow = streamgp.load("arm.gp")
assert (tomorrow.predict(X[:5]) == learned.predict(X[:5])).all()
print(f"{tomorrow.n_samples_seen_} rows seen, {tomorrow.rank_} pivots")
