"""The sections of the report beside the tables: divergence, settings, Theorem III.1, step 13, cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from . import figures
from .blocks import Block, Figure, Table, paper, shown
from .claims_fixed import closest
from .factors import CROSSES, KINDS, METHODS, PROTOCOLS
from .printed import NUMBERS
from .results import Results
from .tasks import LENGTHS, NOISES, OVERSAMPLINGS, RANK, RANKS, SETTINGS, SHORT_NOISES, SIZES
from .verdicts import CLOSE, NAMES, figure

# Ablation


FACTORS = {
    "printed": "K̄ (Algorithm 3 as printed)",
    "projected": "Algorithm 3, projected",
    "batch": "Algorithm 2 at every batch",
}


def ablation(results: Results, drawn: bool) -> Iterator[Block]:
    """Yield the error by factor and cross-covariance, and why it is of order 1/σ²."""
    yield (
        "Algorithm 4 puts the **exact** cross-covariance c = k(X, x) of eq. (1) (step 11) beside the inverse of the "
        "**truncated** matrix, eq. (2) (step 10). For any U with orthonormal columns, (USUᵀ + σ²I)⁻¹ = U(S + "
        "σ²I)⁻¹Uᵀ + σ⁻²(I − UUᵀ). The printed mean is therefore cᵀU(S + σ²I)⁻¹Uᵀy + σ⁻² c⊥ᵀy⊥, where c⊥ and y⊥ are "
        "the parts of c and y outside the span of U; the printed variance is the projected one less σ⁻²‖c⊥‖². For "
        "given y and U both extra terms are of order 1/σ², whatever the factor, and vanish only where c⊥ does. With "
        "self-training y⊥ is made of earlier predictions, so that the error can be multiplied at every batch."
    )
    yield (
        "With the projected cross-covariance UUᵀc and S = UᵀKU, mean and variance are those of f given the numbers "
        "Uᵀy: a Gaussian conditional. Its covariance is positive semi-definite, and, since Uᵀy is a function of y, "
        "never below that of the exact GP. Algorithm 3 on the projection of K keeps S = UᵀKU. K̄ does not: its "
        "factor has negative eigenvalues, and where one that is kept comes close to −σ² the projected prediction is "
        "large as well. Proofs are in the technical note (docs/note.md)."
    )
    for data in results.sets:
        setting = SETTINGS[data]["lowest"]
        noise = min(SHORT_NOISES, key=lambda v: abs(np.log(v / setting.noise)))
        rows = []
        for kind, cross in product(KINDS, CROSSES):
            found = [results.ablation(kind, RANK, data, f"{p}|{cross}|{noise:g}") for p in PROTOCOLS]
            if None not in found:
                negative = results.negative(kind, RANK, data, f"labels known|{cross}|{noise:g}")
                rows.append([FACTORS[kind], cross, *(shown(f) for f in found), f"{100 * negative:.1f} %"])
        if rows:
            head = ["factor", "cross-covariance", *PROTOCOLS, "variances below 0"]
            seen = f"{NAMES[data]}, {results.about['rows'][data]:,} rows"
            title = f"{seen}, rank {RANK}, noise {noise:g}, length-scale {setting.length:g}√d, ten draws"
            yield Table(title, head, rows)
        for protocol in PROTOCOLS if drawn else ():
            yield from _ablation_figures(results, data, protocol)


def whole_ablation(results: Results, _: bool) -> Iterator[Block]:
    """Yield the mean RMSE of every factor, cross-covariance, rank and noise."""
    yield "Mean RMSE over batches; length-scales of the lowest settings of Table I, p = 10; rank 50 over ten draws."
    for data in results.sets:
        for protocol in PROTOCOLS:
            rows = []
            for kind, cross, rank in product(KINDS, CROSSES, RANKS):
                keys = [f"{protocol}|{cross}|{n:g}" for n in SHORT_NOISES]
                found = [results.ablation(kind, rank, data, key) for key in keys]
                if None not in found:
                    rows.append([f"{FACTORS[kind]}, {cross}, rank {rank}", *(shown(f) for f in found)])
            if rows:
                head = ["factor, cross-covariance, rank", *(f"noise {n:g}" for n in SHORT_NOISES)]
                yield Table(f"{NAMES[data]}, {protocol}", head, rows)


def _ablation_figures(results: Results, data: str, protocol: str) -> Iterator[Block]:
    pairs = {"as printed": ("printed", "exact"), "projected": ("projected", "projected")}
    values = {}
    for name, (kind, cross) in pairs.items():
        keys = [f"{protocol}|{cross}|{noise:g}" for noise in SHORT_NOISES]
        found = [[results.ablation(kind, rank, data, key) for key in keys] for rank in RANKS]
        if any(f is None for row in found for f in row):
            return
        values[name] = np.array([[f.mean for f in row if f is not None] for row in found])
    grows = (
        "multiplied at every batch"
        if protocol == "self-training"
        else "ten times less noise, ten times the error"
    )
    for name in pairs:
        svg = figures.heat(
            values[name], [str(r) for r in RANKS], [f"{n:g}" for n in SHORT_NOISES],
            f"{NAMES[data]}, {protocol}: SRMF, {name}", ("noise (first targets: 1)", "rank"),
            low=float(values["projected"].min()),
        )  # fmt: skip
        said = (
            grows + " ('over': beyond 1e100)"
            if name == "as printed"
            else "no divergence at any rank and noise"
        )
        yield Figure("", svg, f"Mean RMSE by rank and noise, {protocol}, SRMF {name}: {said}.")


# Settings


def settings(results: Results, drawn: bool) -> Iterator[Block]:
    """Yield the settings that are consistent with Table I."""
    yield (
        f"Every combination of {len(LENGTHS)} length-scales (0.1 to 8 √d), {len(NOISES)} noises (1e-4 to 3) and "
        f"{len(SIZES)} pairs of k (10 to 90) and p (0, 10), self-training, all rows, one seed. A setting is "
        f"consistent with a cell of Table I if its error is within 10 % of the printed one. Keeping k + p columns, "
        f"as Algorithm 2 prints it, is k + p with p = 0 here."
    )
    for data in results.sets:
        places = results.sweep(data)
        if not places or data not in ("abalone", "sarcos"):
            continue
        rows = [_consistent(places, data, name) for name in ("NRMF", "RGP", *METHODS)]
        head = ["method", "the paper", "consistent settings", "length-scales /√d", "noises", "k", "p"]
        yield Table(f"{NAMES[data]}, {len(places):,} settings", head, rows)
        rows = []
        for kind in ("as printed", "projected"):
            best = closest(results, data, kind)
            e = best["errors"]
            methods = ("NRMF", "RGP", f"BRMF, {kind}", f"SRMF, {kind}")
            place = f"{best['length']:g}√d, {best['noise']:g}, {best['rank']}, {best['oversampling']}"
            rows.append([kind, place, *(f"{figure(e[m])} ({paper('I', m, data, 0)})" for m in methods)])
        head = ["pair", "length-scale, noise, k, p", "NRMF (the paper)", "RGP", "BRMF", "SRMF"]
        yield Table(
            f"{NAMES[data]}: the setting whose four errors are closest to the paper's together", head, rows
        )
        if drawn:
            yield from _settings_figures(places, data)


def _consistent(places: list[dict[str, Any]], data: str, name: str) -> list[str]:
    theirs = NUMBERS["I", name.partition(",")[0], data][0]
    near = [p for p in places if abs(p["errors"][name] / theirs - 1) <= CLOSE]

    def seen(what: str) -> str:
        values, tried = {p[what] for p in near}, {p[what] for p in places}
        if not values:
            return "none"
        return (
            "all"
            if values == tried
            else f"{min(values):g} to {max(values):g} ({len(values)} of {len(tried)})"
        )

    used = [seen("length"), seen("noise"), seen("rank"), seen("oversampling")]
    if name in ("NRMF", "RGP"):
        used[3] = "not used"
        used[2] = "not used" if name == "NRMF" else used[2]
    return [name, f"{theirs:.2f}", f"{len(near):,} ({100 * len(near) / len(places):.1f} %)", *used]


def _settings_figures(places: list[dict[str, Any]], data: str) -> Iterator[Block]:
    panels: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...] = (
        ("NRMF", lambda p: True),
        ("SRMF, projected", lambda p: p["rank"] == 30 and p["oversampling"] == 0),
        ("SRMF, as printed", lambda p: p["rank"] == 30 and p["oversampling"] == 0),
    )
    for name, chosen in panels:
        table = {(p["length"], p["noise"]): p["errors"][name] for p in places if chosen(p)}
        noises = NOISES[::2] if len(NOISES) > 6 else NOISES
        if not all((length, noise) in table for length in LENGTHS for noise in noises):
            continue
        values = np.array([[table[length, noise] for noise in noises] for length in LENGTHS])
        size, theirs = (
            "" if name == "NRMF" else ", k = 30, p = 0",
            NUMBERS["I", name.partition(",")[0], data][0],
        )
        near = [(int(i), int(j)) for i, j in np.argwhere(np.abs(values / theirs - 1) <= CLOSE)]
        svg = figures.heat(
            values, [f"{v:g}" for v in LENGTHS], [f"{n:g}" for n in noises], f"{NAMES[data]}: {name}{size}",
            ("noise (first targets: 1)", "length-scale / √d"), marked=near,
        )  # fmt: skip
        caption = (
            f"Mean RMSE of {name} by length-scale and noise; framed: within 10 % of the paper's {theirs:.2f}."
        )
        yield Figure("", svg, caption)


# The theorem, step 13, cost


def theorem(results: Results, drawn: bool) -> Iterator[Block]:
    """Yield the error of the factor over the bound of Theorem III.1."""
    yield (
        "‖K_T − U_T S_T U_Tᵀ‖ of Algorithm 3 as printed over 2 Σ (1 + 9√((k + p)n_t)) σ_(k+1)(K_t), k = 30, ten "
        "batches. The theorem states a probability of at least 1 − 3Tp^(−p); its proof has 3p^(−p)n_t a step. The "
        "proof applies eq. (3) to K̄_t and states it with K_t: the gap is σ_(k+1)(K̄_t)/σ_(k+1)(K_t). A small error "
        "of the factor does not make the printed prediction accurate: what is cut is divided by σ²."
    )
    rows = []
    for data in results.sets:
        for p in OVERSAMPLINGS:
            run = results.found("theorem", p, data)
            if run is not None:
                over = sum(r > 1 for r in run["ratios"])
                said = min(run["said"], 1.0)
                rows.append(
                    [
                        NAMES[data], str(p), f"{len(run['ratios'])}", f"{over}", f"{said:.2g}",
                        f"{max(run['ratios']):.1e}", f"{run['gap_low']:.2f} to {run['gap_high']:.2f}",
                    ]
                )  # fmt: skip
    head = [
        "set",
        "p",
        "draws",
        "over the bound",
        "stated probability, at most",
        "largest error / bound",
        "gap",
    ]
    if rows:
        yield Table("", head, rows)
    for data in results.sets if drawn else ():
        runs = {p: results.found("theorem", p, data) for p in OVERSAMPLINGS}
        if all(runs.values()):
            caption = "Error of the factor over the bound of Theorem III.1: it holds with a wide margin in every draw."
            yield Figure("", figures.bound(runs, data), caption)


def step_13(results: Results, drawn: bool) -> Iterator[Block]:
    """Yield training and test error as a₀, σ², or a₁ and a₂ change."""
    yield (
        "With a₀ counted in K at the training rows, the training residual is y − Kα = σ²α with α = (K + σ²I)⁻¹y. It "
        "goes to zero as a₀ → ∞, as σ² → 0, and as a₁, a₂ → ∞: step 13 has no minimum without bounds, and a₀ is "
        "noise by another name. The error on the next rows is not lowered by it. All labels known, distance kernel, "
        "a₁ = a₂ = 1, noise 0.1 where they do not vary."
    )
    for data in results.sets:
        study = results.found("step 13", data)
        if study is None:
            continue
        rows = [
            [
                f"{value:g}",
                *(
                    figure(e) if e >= 0.01 else f"{e:.1e}"
                    for what in ("a0", "noise", "weights")
                    for e in study[what][i]
                ),
            ]
            for i, value in enumerate(study["values"])
        ]
        head = [
            "value",
            "a₀: training",
            "next rows",
            "σ²: training",
            "next rows",
            "a₁ = a₂: training",
            "next rows",
        ]
        yield Table(f"{NAMES[data]}, trained on {study['rows']} rows", head, rows)
        if drawn:
            for what, name in (("a0", "a₀"), ("weights", "a₁ = a₂")):
                svg = figures.degenerate(study, what, f"{NAMES[data]}: training error as {name} grows", name)
                yield Figure(
                    "",
                    svg,
                    f"As {name} grows the training error goes to zero, the error on the next rows does not.",
                )


def cost(results: Results, drawn: bool) -> Iterator[Block]:
    """Yield the power of n that a batch costs."""
    rows = ("NRMF", "BRMF, projected", "SRMF, projected", "RGP")
    yield (
        "Remark III.1: a step of Algorithm 3 costs O(nk²) in the place of O(n²k). Powers of n fitted over the last "
        "half of the batches; Abalone is too short for them."
    )
    for data in results.sets:
        runs = {row: results.found("time I", row, data) for row in rows}
        if not all(runs.values()):
            continue
        slopes = [[row, f"{figures.slope(run['seconds']) + 0.0:.1f}"] for row, run in runs.items()]
        yield Table(NAMES[data], ["method", "power of n"], slopes)
        if drawn:
            svg = figures.costs(
                {row.partition(",")[0]: run["seconds"] for row, run in runs.items()}, NAMES[data]
            )
            yield Figure(
                "",
                svg,
                "Time of a batch against rows so far, both axes logarithmic; the power of n in the legend.",
            )
