"""Draw the figures of the documentation, each from a run of the library or of the benchmark.

    python -m docs.figures [NAME ...]

All figures unless some are named; they are written to docs/figures/NAME.png.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from docs.diagrams import BLUE, GREEN, GREY, ORANGE, PINK, SKY, cluster, panels, run
from experiments.common import command, in_intervals, parts_argument
from experiments.internals import pivot_exchange, recent_weights
from streamgp import StreamingGPRegressor
from streamgp.datasets import load_arm
from streamgp.kernels import Scaled, SquaredExponential
from streamgp.lowrank import pivoted_cholesky

FOLDER = Path(__file__).parent / "figures"
# Rows stored, RMSE of 10,000 rows of kin40k, milliseconds a batch; and of the exact Gaussian process, as in bench.md.
STORED = ((0, 0.2946, 14), (1000, 0.2822, 21), (2000, 0.2676, 21), (5000, 0.2445, 22), (10_000, 0.2383, 22))
EXACT_RMSE, EXACT_MS = 0.2012, 99.6
BENCH = Path(__file__).parents[1] / "experiments" / "results" / "bench.json"

# The whole in one picture


def streamgp() -> Figure:
    """Return a figure: intervals of a torque while it is learned, and what a batch costs as rows pass."""
    arm = load_arm(1000)
    gp = StreamingGPRegressor(rank=200, random_state=0)
    said = []
    for start in range(0, 1000, 10):
        rows = slice(start, start + 10)
        if start >= 50:
            said.append([part[:, 1] for part in gp.predict(arm.X[rows], return_interval=0.9)])
        gp.partial_fit(arm.X[rows], arm.y[rows])
    mean, low, high = np.concatenate(said, axis=1)
    figure, (left, right) = panels(2, 3.1, width=10.0, width_ratios=(3, 2))
    seconds = np.arange(50, 1000) / 50
    left.fill_between(seconds, low, high, color=SKY, alpha=0.5, linewidth=0, label="90 % interval")
    left.plot(seconds, arm.y[50:, 1], ".", color="black", markersize=1.5, label="measured")
    left.plot(seconds, mean, color=BLUE, linewidth=1, label="predicted before it was learned")
    reach = np.abs(arm.y[:, 1]).max()
    left.set(
        title="Shoulder torque of an arm, from its first second on", xlabel="seconds", ylabel="N m",
        xlim=(1, 20), ylim=(-2.1 * reach, 1.6 * reach),
    )  # fmt: skip
    left.legend(ncols=3, loc="lower center", fontsize=8, markerscale=4)
    _costs(right)
    right.set_title("A batch of 100 rows of kin40k")
    return figure


def _costs(panel: Any) -> None:
    """Draw milliseconds a batch, means over stretches of the stream, against rows so far, from the saved benchmark."""
    results = json.loads(BENCH.read_text())["results"]
    shown = {
        "GPyTorch, set_train_data": (ORANGE, "--", "GPyTorch, exact"),
        "scikit-learn, refitted": (PINK, "-.", "scikit-learn, refitted"),
        "exact (nrmf)": (GREEN, ":", "streamgp, exact"),
        "streamgp, nothing set": (SKY, "-", "streamgp, tuning"),
        "pivoted 500": (BLUE, "-", "streamgp, not tuning"),
    }
    for peer, (colour, dash, label) in shown.items():
        seconds = np.array(results[f"{peer} | kin40k"]["batches"])[:, 1]
        groups = np.array_split(np.arange(len(seconds)), 12)
        rows = [500 + 100 * (g.mean() + 0.5) for g in groups]
        panel.loglog(
            rows, [1e3 * seconds[g].mean() for g in groups], dash, color=colour, label=label, linewidth=2
        )
    panel.set(xlabel="rows learned so far", ylabel="milliseconds", xticks=[1000, 2000, 5000, 10_000])
    panel.set_xticklabels(["1,000", "2,000", "5,000", "10,000"])
    panel.set_ylim(4, 4e5)
    panel.minorticks_off()
    panel.legend(fontsize=8, loc="upper left", ncols=2)


def what_a_batch_costs() -> Figure:
    """Return a figure: what a batch costs as rows pass."""
    figure, panel = panels(1, 3.6, width=6.5)
    _costs(panel)
    return figure


# architecture


def low_rank() -> Figure:
    """Return a figure: K, its part explained by eight pivots, and the residual."""
    X = np.sort(np.random.default_rng(0).uniform(0, 10, 300))[:, None]
    K = SquaredExponential(0.8).block(X)
    found = pivoted_cholesky(lambda i: K[:, i], K.diagonal().copy(), 40, 1e-12, (0,))
    figure, axes = panels(4, 2.7, width=10.0)
    few = found.U[:, :8]
    for panel, (matrix, title) in zip(
        axes,
        ((K, "K, 300 × 300"), (few @ few.T, "ΦΦᵀ, 8 pivots"), (K - few @ few.T, "what they leave")),
        strict=False,
    ):
        panel.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
        panel.set(title=title, xticks=[], yticks=[])
        panel.grid(visible=False)
    for panel in axes[1:3]:
        panel.plot(found.pivots[:8], found.pivots[:8], "o", color=ORANGE, markersize=4)
    left = 1 - np.cumsum((found.U**2).sum(axis=0)) / 300
    axes[3].semilogy(np.arange(1, found.rank + 1), left, color=BLUE)
    axes[3].axvline(8, color=ORANGE, linestyle="--")
    axes[3].set(title="tr(K − ΦΦᵀ) / tr K", xlabel="pivots", ylim=(1e-10, 2))
    return figure


def diverges() -> Figure:
    """Return a figure: errors of Algorithm 4 as printed and of its projected variant, where the rank is too short."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 8))
    y = np.sin(X[:, 0]) * X[:, 1] + np.cos(X[:, 2] + X[:, 3]) + 0.1 * rng.standard_normal(4000)
    kernel = SquaredExponential(3.0)
    figure, panel = panels(1, 3.2, width=7.0)
    for variant, colour, dash, label in (
        ("literal", ORANGE, "--", "as printed: exact cross-covariance, truncated inverse"),
        ("projected", BLUE, "-", "projected: both in the span of U"),
    ):
        gp = StreamingGPRegressor(
            kernel, method="srmf", variant=variant, rank=60, noise=0.01, tune="none", random_state=0
        )
        errors = []
        for start in range(0, 4000, 100):
            rows = slice(start, start + 100)
            if start:
                errors.append(np.sqrt(np.mean((gp.predict(X[rows]) - y[rows]) ** 2)) / y.std())
            gp.partial_fit(X[rows], y[rows])
        panel.semilogy(np.arange(1, 40) * 100, errors, dash, color=colour, label=label, linewidth=2)
    panel.axhline(1, color="black", linestyle=":", label="always saying the mean")
    panel.set(xlabel="rows learned", ylabel="error / spread")
    panel.legend(fontsize=9)
    return figure


# pivots


def _wandering(n: int) -> np.ndarray:
    """Return rows (n, 2) drawn about a point that moves along a curve."""
    rng = np.random.default_rng(0)
    t = np.linspace(0, 1, n)
    centre = np.stack([-3 + 6 * t, 1.5 * np.sin(2 * np.pi * t)], axis=1)
    return centre + 0.7 * rng.standard_normal((n, 2))


def pivots() -> Figure:
    """Return a figure: pivots follow the stream, and some stay where it was."""
    X = _wandering(6000)
    y = np.sin(2 * X[:, 0]) + np.cos(2 * X[:, 1])
    gp = StreamingGPRegressor(SquaredExponential(0.8), rank=40, noise=0.01, tune="none", random_state=0)
    figure, axes = panels(4, 2.9, width=10.5, sharex=True, sharey=True)
    shown = dict(zip((400, 2000, 4000, 6000), axes, strict=True))
    for start in range(0, 6000, 100):
        gp.partial_fit(X[start : start + 100], y[start : start + 100])
        panel = shown.get(start + 100)
        if panel is not None:
            panel.plot(*X[:start].T, ".", color="#DDDDDD", markersize=1)
            panel.plot(*X[max(0, start - 300) : start + 100].T, ".", color=SKY, markersize=2)
            panel.plot(
                *gp.pivots_.T, "o", color=ORANGE, markersize=4, markeredgecolor="white", markeredgewidth=0.4
            )
            panel.set_title(f"after {start + 100:,} rows")
    handles = [
        axes[0].plot([], [], ".", color=c, markersize=m)[0]
        for c, m in (("#BBBBBB", 5), (SKY, 6), (ORANGE, 10))
    ]
    figure.legend(
        handles, ["rows before", "the last 400 rows", "the 40 pivots"], loc="outside lower center", ncols=3
    )
    return figure


def who_goes() -> Figure:
    """Return a figure: gains of candidates against losses of the weakest pivots, and which pairs are exchanged."""
    X = _wandering(6000)
    y = np.sin(2 * X[:, 0]) + np.cos(2 * X[:, 1])
    gp = StreamingGPRegressor(SquaredExponential(0.8), rank=40, noise=0.01, tune="none", random_state=0)
    for start in range(0, 3000, 100):
        gp.partial_fit(X[start : start + 100], y[start : start + 100])
    gains, loss, margin = pivot_exchange(gp, X[3000:3100])
    places = np.arange(1, len(gains) + 1)
    figure, panel = panels(1, 3.4, width=7.0)
    panel.semilogy(
        places,
        margin * np.maximum(loss[: len(places)], 1e-7),
        "s--",
        color=ORANGE,
        label="10 × what the weakest pivots would lose",
    )
    panel.semilogy(places, gains, "o-", color=BLUE, label="what newcomers would gain, the best first")
    n_swaps = int(np.cumprod(gains > margin * loss[: len(places)]).sum())
    panel.axvspan(
        0.5, n_swaps + 0.5, color=GREEN, alpha=0.15, label=f"{n_swaps} take the places of {n_swaps}"
    )
    panel.set(xlabel="pair", ylabel="share of a row's variance", xlim=(0.5, len(places) + 0.5))
    panel.legend(fontsize=9)
    return figure


# hyperparameters


def tuning() -> Figure:
    """Return a figure: length-scales while they are tuned, and the error with and without tuning."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (4000, 6)) * np.array([1, 1, 1, 1000, 0.001, 1])
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(4000)
    spread = X.std(axis=0)
    figure, (left, right) = panels(2, 3.2)
    lengths: list[np.ndarray] = []
    for tune, colour, dash in (("none", ORANGE, "--"), ("doubling", BLUE, "-")):
        gp = StreamingGPRegressor(tune=tune, rank=200, random_state=0)
        errors = []
        for start in range(0, 4000, 50):
            rows = slice(start, start + 50)
            if start:
                errors.append(np.sqrt(np.mean((gp.predict(X[rows]) - y[rows]) ** 2)))
            gp.partial_fit(X[rows], y[rows])
            if tune == "doubling":
                base = gp.kernel_.split()[1] or gp.kernel_
                correlation = base.kernel if isinstance(base, Scaled) else base
                lengths.append(np.asarray(correlation.length_scale) / spread)
        smooth = np.sqrt(np.convolve(np.square(errors), np.ones(4) / 4, "valid"))
        right.loglog(
            np.arange(len(smooth)) * 50 + 125, smooth, dash, color=colour, label=f'tune="{tune}"', linewidth=2
        )
    rows_seen = np.arange(1, len(lengths) + 1) * 50
    for i, (label, colour, dash) in enumerate(
        (
            ("x₁: a fast wave", BLUE, "-"),
            ("x₂: a parabola", GREEN, "--"),
            ("four that do not matter", GREY, ":"),
        )
    ):
        left.loglog(rows_seen, np.array(lengths)[:, i], dash, color=colour, label=label, linewidth=2)
    left.loglog(rows_seen, np.array(lengths)[:, 3:], ":", color=GREY, linewidth=2)
    left.set(xlabel="rows", ylabel="length-scale / spread of the feature", title="what is tuned")
    left.legend(fontsize=8)
    right.axhline(0.1, color="black", linestyle=":", label="the noise")
    right.set(xlabel="rows", ylabel="error", title="what it is worth", xticks=[200, 500, 1000, 2000, 4000])
    right.set_xticklabels(["200", "500", "1,000", "2,000", "4,000"])
    right.minorticks_off()
    right.legend(fontsize=8)
    return figure


# calibration


def calibration() -> Figure:
    """Return a figure: the conformal quantile of recent scores, and coverage with and without calibration."""
    n = 9000
    light, loaded = load_arm(n // 2), load_arm(n // 2, start=n // 2, payload=2.0)
    X, y = np.vstack([light.X, loaded.X]), np.concatenate([light.y[:, 3], loaded.y[:, 3]])
    gp = StreamingGPRegressor(rank=200, random_state=0)
    inside: dict[bool, list[np.ndarray]] = {True: [], False: []}
    scores = []
    for start in range(0, n, 20):
        rows = slice(start, start + 20)
        if start:
            mean, std = gp.predict(X[rows], return_std=True)
            scores.append(np.abs(y[rows] - mean) / std)
            for calibrated, kept in inside.items():
                kept.append(in_intervals(gp, X[rows], y[rows], calibrated=calibrated)[0])
        gp.partial_fit(X[rows], y[rows])
    figure, (left, right) = panels(2, 3.3, width=10.0, width_ratios=(2, 3))
    last = np.concatenate(scores)[-1000:]
    weights = recent_weights(1000)
    order = np.argsort(last)
    share = np.cumsum(weights[order]) / weights.sum()
    reach = last[order][np.searchsorted(share, 0.9)]
    left.plot(last[order], share, color=BLUE, linewidth=2)
    left.plot([reach, reach, 0], [0, 0.9, 0.9], color=ORANGE, linestyle="--")
    left.annotate(f"reaches {reach:.2f},\nnot 1.64", (reach, 0.45), (reach + 0.3, 0.35), color=ORANGE)
    left.set(
        xlabel="|y − mean| / std of a row, before it was learned", ylabel="share of the last rows",
        title="how far an interval reaches", xlim=(0, 4), ylim=(0, 1.02),
    )  # fmt: skip
    for calibrated, colour, dash, label in (
        (False, ORANGE, "--", "the Gaussian process's own"), (True, BLUE, "-", "calibrated")
    ):  # fmt: skip
        window = np.convolve(np.concatenate(inside[calibrated]), np.ones(500) / 500, "valid")
        right.plot(
            (np.arange(len(window)) + 520) / 50, window, dash, color=colour, label=label, linewidth=1.5
        )
    right.axhline(0.9, color="black", linestyle=":")
    right.axvline(n / 100, color=PINK, linewidth=2, label="the arm picks up 2 kg")
    right.set(
        xlabel="seconds", title="share of the last 500 rows inside their 90 % intervals", ylim=(0.3, 1.02)
    )
    right.legend(fontsize=8, loc="lower left")
    return figure


def throughput() -> Figure:
    """Return a figure: rows a second of one core and of a GPU; the numbers are those of the tables in scale.md."""
    figure, panel = panels(1, 3.3, width=6.5)
    shown = {
        "H200, float64, batches of 10,000": ((500, 2000, 8000), (8_154_416, 3_605_967, 306_370), BLUE, "o-"),
        "one core, partitions of 50,000": ((100, 300, 500), (783_865, 122_058, 53_769), GREEN, "s--"),
        "one core, one row at a time": ((100, 300, 500), (1578, 1195, 1023), ORANGE, "^:"),
    }
    for label, (ranks, rows, colour, dash) in shown.items():
        panel.loglog(ranks, rows, dash, color=colour, label=label)
    panel.set(xlabel="rank", ylabel="rows a second", xticks=[100, 300, 500, 2000, 8000], ylim=(500, 3e7))
    panel.set_xticklabels(["100", "300", "500", "2000", "8000"])
    panel.minorticks_off()
    panel.legend(fontsize=9)
    return figure


def stored_rows() -> Figure:
    """Return a figure: error of kin40k against stored rows and against time, with the numbers of streams.md."""
    stored, rmse, ms = zip(*STORED, strict=True)
    figure, (left, right) = panels(2, 3.1, sharey=True)
    left.plot(stored, rmse, "o-", color=BLUE, label="500 inducing points and 32 neighbours")
    left.plot(stored[0], rmse[0], "s", color=ORANGE, label="500 inducing points alone")
    left.set(xlabel="rows stored", ylabel="RMSE over the stream")
    right.semilogx(ms[1:], rmse[1:], "o-", color=BLUE)
    right.semilogx(ms[0], rmse[0], "s", color=ORANGE)
    right.semilogx(EXACT_MS, EXACT_RMSE, "D", color=GREEN, label="exact Gaussian process of all rows")
    for panel in (left, right):
        panel.axhline(EXACT_RMSE, color=GREEN, linewidth=1, linestyle=":")
        panel.legend(fontsize=8)
    right.set(xlabel="ms a batch of 100, predicted and learned", xticks=(10, 20, 50, 100), xlim=(10, 120))
    right.set_xticklabels(["10", "20", "50", "100"])
    right.minorticks_off()
    return figure


DRAWN = {
    function.__name__.replace("_", "-"): function
    for function in (
        streamgp, what_a_batch_costs, low_rank, diverges, pivots, who_goes, tuning, calibration, run, cluster,
        throughput, stored_rows,
    )
}  # fmt: skip


@command(__doc__)
@parts_argument(list(DRAWN))
def main(parts: tuple[str, ...]) -> None:
    """Write the figures."""
    warnings.simplefilter("ignore")
    FOLDER.mkdir(exist_ok=True)
    for name in parts:
        DRAWN[name]().savefig(FOLDER / f"{name}.png", dpi=110)
        print(f"docs/figures/{name}.png")


if __name__ == "__main__":
    main()
