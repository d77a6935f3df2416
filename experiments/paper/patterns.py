"""The paper's claims about patterns, not single cells: which hold here, which fail, which cannot be told.

A claim is judged on the mean over seeds: it holds where it holds on every set and, for errors that depend on settings
the paper does not state, in most settings that are consistent with its own baseline; it cannot be told where those
settings disagree.
"""

from __future__ import annotations

from . import claims_fixed, claims_tuned
from .results import Results
from .verdicts import Pattern

JUDGES = (
    claims_fixed.speed_one,
    claims_fixed.against_rgp,
    claims_fixed.slopes,
    claims_fixed.same_error,
    claims_fixed.as_printed,
    claims_fixed.column,
    claims_fixed.abalone_loses,
    claims_fixed.sarcos_gains,
    claims_tuned.rescue,
    claims_tuned.accumulates,
    claims_tuned.continuous_better,
    claims_tuned.tuning_time,
    claims_tuned.order_three,
    claims_tuned.speed_three,
    claims_tuned.labels,
    claims_tuned.theorem,
)


def patterns(results: Results) -> list[Pattern]:
    """Return every claim with its verdict; claims whose runs are missing are left out."""
    if results.about["quick"]:
        return []
    judged = []
    for judge in JUDGES:
        try:
            judged.append(judge(results))
        except LookupError:
            continue
    return judged
