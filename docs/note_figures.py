"""Draw the figures of the technical note (docs/note.md) and print every number in it.

    python -m docs.note_figures [NAME ...]

All figures unless some are named; they are written to docs/figures/note-NAME.svg. Needs no data set and takes a few
seconds. `tests/test_note.py` compares the numbers with those of the page.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from docs.diagrams import BLUE, GREEN, GREY, ORANGE, panels
from experiments.common import command, parts_argument
from streamgp.kernels import SquaredExponential
from streamgp.lowrank import Factor, bordered_eigh, randomized_eigh, sequential_step

FOLDER = Path(__file__).parent / "figures"
# The experiment of the note: rows, rows of a batch, eigenpairs kept, oversampling, noise variance.
N, BATCH, RANK, OVERSAMPLING, NOISE = 1500, 100, 50, 10, 0.1
# Rows learned in the comparison by noise; the others are predicted.
LEARNED = 800
FACTORS = {"bordered": "K̄ (Algorithm 3)", "projected": "projected core", "batch": "all rows (Algorithm 2)"}


@cache
def stream() -> tuple[np.ndarray, np.ndarray]:
    """Return the kernel matrix K (n, n) and the targets y (n,) of the experiment, in units of the first batch."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 8))
    y = np.sin(X[:, 0]) * X[:, 1] + np.cos(X[:, 2] + X[:, 3]) + 0.1 * rng.standard_normal(N)
    y = (y - y[:BATCH].mean()) / y[:BATCH].std()
    return SquaredExponential(8**0.5).block(X), y


class Pair(NamedTuple):
    """Means and latent variances, both (b,), of one factor: of the printed prediction and of the projected one."""

    printed: np.ndarray
    printed_variance: np.ndarray
    projected: np.ndarray
    projected_variance: np.ndarray


def predictions(factor: Factor, B: np.ndarray, prior: np.ndarray, y: np.ndarray, noise: float) -> Pair:
    """Return both predictions of new rows from B = k(X, x) (n, b), k(x, x) (b,) and y (n,); eqs. (9) and (10)."""
    projection, z = factor.U.T @ B, factor.U.T @ y
    damped = projection / (factor.S + noise)[:, None]
    left, error = B - factor.U @ projection, y - factor.U @ z
    mean, variance = damped.T @ z, prior - (damped * projection).sum(axis=0)
    return Pair(mean + left.T @ error / noise, variance - (left**2).sum(axis=0) / noise, mean, variance)


@cache
def factors(kind: str) -> list[Factor]:
    """Return the factor after each batch; it depends neither on the targets nor on the noise."""
    K = stream()[0]
    found = [randomized_eigh(K[:BATCH, :BATCH], RANK, OVERSAMPLING, (0, BATCH), definite=True)]
    for end in range(2 * BATCH, N + 1, BATCH):
        past, seed = found[-1], (0, end)
        B, C = K[: end - BATCH, end - BATCH : end], K[end - BATCH : end, end - BATCH : end]
        if kind == "bordered":
            found.append(bordered_eigh(past, B, C, RANK, OVERSAMPLING, seed=seed))
        elif kind == "batch":
            found.append(randomized_eigh(K[:end, :end], RANK, OVERSAMPLING, seed, definite=True))
        else:
            step = sequential_step(past.S, past.U.T @ B, C, RANK, OVERSAMPLING, seed=seed, definite=True)
            found.append(Factor(step.basis(past.U), step.S))
    return found


class Batch(NamedTuple):
    """What one batch of a run gave: true targets, means and latent variances, all (b,)."""

    y: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


@cache
def run(kind: str, cross: str, *, labelled: bool) -> list[Batch]:
    """Return each batch after the first, predicted and then learned with its targets or with its own predictions."""
    (K, y), out = stream(), []
    targets = y[:BATCH]
    for start, factor in zip(range(BATCH, N, BATCH), factors(kind), strict=False):
        new = slice(start, start + BATCH)
        pair = predictions(factor, K[:start, new], K[new, new].diagonal(), targets, NOISE)
        mean, variance = pair[:2] if cross == "printed" else pair[2:]
        out.append(Batch(y[new], mean, variance))
        targets = np.append(targets, y[new] if labelled else mean)
    return out


class Scores(NamedTuple):
    """RMSE over all batches of the two protocols, and the share of variances that are negative."""

    self_training: float
    labelled: float
    negative: float


def scores(kind: str, cross: str) -> Scores:
    """Return the scores of a factor and a cross-covariance, the cells of the table of the note."""
    runs = [run(kind, cross, labelled=labelled) for labelled in (False, True)]
    errors = [float(np.sqrt(np.mean([(b.mean - b.y) ** 2 for b in found]))) for found in runs]
    return Scores(*errors, float(np.mean([b.variance < 0 for b in runs[0]])))


@cache
def bound() -> float:
    """Return √(y₁ᵀ(K₁ + σ²I)⁻¹y₁), the bound of Proposition 5 on every prediction, since k(x, x) = 1."""
    K, y = stream()
    first = slice(0, BATCH)
    return float(np.sqrt(y[first] @ np.linalg.solve(K[first, first] + NOISE * np.eye(BATCH), y[first])))


class Spectrum(NamedTuple):
    """Eigenvalues after the second batch, largest first: of K, of K̄ and of the projected core."""

    K: np.ndarray
    bordered: np.ndarray
    core: np.ndarray


@cache
def spectrum() -> Spectrum:
    """Return the spectra when the second batch comes, the first one cut to RANK exact eigenpairs."""
    K, n = stream()[0][: 2 * BATCH, : 2 * BATCH], BATCH
    past = randomized_eigh(K[:n, :n], RANK, n, (0,), definite=True)
    bordered = np.block([[past.dense(), K[:n, n:]], [K[n:, :n], K[n:, n:]]])
    cross = past.U.T @ K[:n, n:]
    core = np.block([[np.diag(past.S), cross], [cross.T, K[n:, n:]]])
    return Spectrum(*(np.linalg.eigvalsh(matrix)[::-1] for matrix in (K, bordered, core)))


@cache
def by_noise() -> dict[str, list[float]]:
    """Return noises and, for each, the distance from the means of the exact GP after LEARNED rows."""
    (K, y), n = stream(), LEARNED
    values, vectors = np.linalg.eigh(K[:n, :n])
    B, prior, known = K[:n, n:], np.ones(N - n), y[:n]
    out: dict[str, list[float]] = {"noise": [], "bordered": [], "projected": [], "pair": []}
    for noise in 10.0 ** np.arange(-6, 0.5, 0.5):
        exact = B.T @ (vectors @ ((vectors.T @ known) / (values + noise)))
        bordered, projected = (
            predictions(factors(kind)[n // BATCH - 1], B, prior, known, float(noise))
            for kind in ("bordered", "projected")
        )
        out["noise"].append(float(noise))
        means = {"bordered": bordered.printed, "projected": projected.printed, "pair": projected.projected}
        for name, mean in means.items():
            out[name].append(float(np.sqrt(np.mean((mean - exact) ** 2))))
    return out


@cache
def truncated() -> list[float]:
    """Return σ_{k+1}(K̄_t)/σ_{k+1}(K_t) for the batches that LEARNED rows have after the first."""
    K, out = stream()[0], []
    for end, past in zip(range(2 * BATCH, LEARNED + 1, BATCH), factors("bordered"), strict=False):
        whole = K[:end, :end]
        bordered = whole.copy()
        bordered[: end - BATCH, : end - BATCH] = past.dense()
        ours, theirs = (np.sort(np.abs(np.linalg.eigvalsh(m)))[-RANK - 1] for m in (bordered, whole))
        out.append(float(ours / theirs))
    return out


def slopes() -> dict[str, float]:
    """Return the slope in the double logarithmic plot over the lower half of the noises, for each printed curve."""
    found = by_noise()
    x = np.log(found["noise"][:7])
    return {kind: float(np.polyfit(x, np.log(found[kind][:7]), 1)[0]) for kind in ("bordered", "projected")}


# Figures: 3.8 inches wide, so that their text can be read on a telephone


def _panel(height: float = 2.9) -> tuple[Figure, object]:
    return panels(1, height, width=3.8)


def noise() -> Figure:
    """Return a figure: distance from the exact GP against the noise variance."""
    figure, panel = _panel()
    found = by_noise()
    for kind, colour, mark, label in (
        ("bordered", ORANGE, "s--", "printed, factor of K̄"),
        ("projected", GREEN, "^:", "printed, projected factor"),
        ("pair", BLUE, "o-", "projected pair"),
    ):
        panel.loglog(found["noise"], found[kind], mark, color=colour, label=label, markersize=4)
    panel.set(xlabel="noise variance σ²", ylabel="RMS distance from the exact GP", ylim=(1e-2, 1e9))
    panel.set_xticks([1e-6, 1e-4, 1e-2, 1])
    panel.set_yticks([1e-2, 1, 1e2, 1e4, 1e6])
    panel.minorticks_off()
    panel.legend(fontsize=9, loc="upper right")
    return figure


def spectra() -> Figure:
    """Return a figure: eigenvalues of K̄ and of the projected core, by magnitude and sign."""
    figure, panel = _panel()
    found = spectrum()
    places = np.arange(1, 2 * BATCH + 1)
    panel.plot(places, found.K, "-", color=GREY, label="K", linewidth=2)
    panel.plot(places, found.bordered, "--", color=ORANGE, label="K̄", linewidth=2)
    panel.plot(places[: found.core.size], found.core, ":", color=BLUE, label="projected core", linewidth=2.5)
    panel.set_yscale("symlog", linthresh=0.01)
    panel.axhline(0, color="black", linewidth=0.6)
    panel.set(xlabel="eigenvalue, largest first", ylabel="λ (linear within ±0.01)", ylim=(-0.2, 200))
    ticks = ["−0.1", "−0.01", "0", "0.01", "0.1", "1", "10", "100"]
    panel.set_yticks([float(t.replace("−", "-")) for t in ticks], ticks)
    panel.minorticks_off()
    panel.legend(fontsize=9, loc="upper right")
    return figure


def growth() -> Figure:
    """Return a figure: the largest prediction of each batch in self-training."""
    figure, panel = _panel()
    for kind, cross, colour, mark, label in (
        ("bordered", "printed", ORANGE, "s--", "printed, factor of K̄"),
        ("projected", "printed", GREEN, "^:", "printed, projected factor"),
        ("projected", "projected", BLUE, "o-", "projected pair"),
    ):
        largest = [float(np.abs(b.mean).max()) for b in run(kind, cross, labelled=False)]
        panel.semilogy(np.arange(2, 2 + len(largest)), largest, mark, color=colour, label=label, markersize=4)
    panel.axhline(bound(), color="black", linewidth=1, label="bound of Proposition 5")
    panel.set(xlabel="batch", ylabel="largest |prediction|", ylim=(0.5, 1e9))
    panel.set_yticks([1, 1e2, 1e4, 1e6])
    panel.minorticks_off()
    panel.legend(fontsize=9, loc="upper left")
    return figure


DRAWN = {function.__name__: function for function in (noise, spectra, growth)}


def drawn(name: str) -> Figure:
    """Return a figure of the note, text at 9 points."""
    with mpl.rc_context({"font.size": 9}):
        return DRAWN[name]()


def print_numbers() -> None:
    """Print every number that the note takes from the experiment."""
    for kind, factor in FACTORS.items():
        for cross in ("printed", "projected"):
            found = scores(kind, cross)
            print(
                f"{factor}, {cross}: self-training {found.self_training:.3g}, labels known {found.labelled:.3g}, "
                f"negative variances {100 * found.negative:.1f} %"
            )
    print(f"bound of Proposition 5: {bound():.2f}")
    found = spectrum()
    for name, values in found._asdict().items():
        print(f"{name}: {(values < -1e-9).sum()} negative eigenvalues, the lowest {values[-1]:.3g}")
    for kind, slope in slopes().items():
        print(f"slope of the printed prediction, {kind}: {slope:.3f}")
    ratios = truncated()
    print(f"σ_(k+1) of K̄ over that of K, {LEARNED} rows: {min(ratios):.2f} to {max(ratios):.2f}")
    errors = by_noise()
    for kind in ("bordered", "projected", "pair"):
        print(f"{kind}: {errors[kind][0]:.3g} at σ² = 1e-6, {errors[kind][-1]:.3g} at σ² = 1")


@command(__doc__)
@parts_argument(list(DRAWN))
def main(parts: tuple[str, ...]) -> None:
    """Write the figures and print the numbers."""
    # Identifiers from a fixed salt and no date: the same figure is the same file.
    with mpl.rc_context({"svg.hashsalt": "note", "font.size": 9}), threadpool_limits(1):
        for name in parts:
            DRAWN[name]().savefig(FOLDER / f"note-{name}.svg", metadata={"Date": None, "Creator": None})
            print(f"docs/figures/note-{name}.svg")
        print_numbers()


if __name__ == "__main__":
    main()
