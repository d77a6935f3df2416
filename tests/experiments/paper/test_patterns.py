"""Verdicts are about patterns: what holds, fails or cannot be told follows from the numbers."""

import numpy as np
import pytest

from experiments.paper import claims_tuned, patterns, verdicts
from experiments.paper.printed import NUMBERS, printed
from experiments.paper.results import Results, estimate


def results(**tasks):
    kept = {key: {"found": found, "seconds": 1.0} for key, found in tasks.items()}
    about = {"quick": False, "rows": {"abalone": 4000, "sarcos": 10_000}}
    return Results({"about": about, "made": [], "tasks": kept})


def table_two(untuned, tuned):
    out = {}
    for data in ("abalone", "sarcos"):
        for noise in ("1", "0.1", "0.01"):
            for mode, error in (("no optimisation", untuned), ("initial", tuned), ("continuous", tuned)):
                out[f"II | {mode} | {noise} | 1 | {data} | self-training"] = {"rmse": [None, error, error]}
    return out


@pytest.mark.parametrize(("untuned", "verdict"), [(50.0, "holds"), (5.0, "fails"), (None, "holds in part")])
def test_tuning_rescues_where_the_untuned_error_is_several_times_larger(untuned, verdict):
    tasks = table_two(untuned or 50.0, 4.0)
    if untuned is None:  # from some starts only
        tasks |= {key: {"rmse": [None, 5.0]} for key in tasks if "no opt" in key and "| 0.1 |" in key}
    assert claims_tuned.rescue(results(**tasks)).verdict == verdict


def test_equal_errors_do_not_make_one_mode_more_accurate():
    found = claims_tuned.continuous_better(results(**table_two(50.0, 4.0)))
    assert found.verdict == "fails"


def test_claims_without_runs_are_left_out_and_a_quick_run_claims_nothing():
    some = patterns.patterns(results(**table_two(50.0, 4.0)))
    assert {p.claim[:7] for p in some} >= {"Untuned"}
    assert len(some) < len(patterns.JUDGES)
    quick = results(**table_two(50.0, 4.0))
    quick.about["quick"] = True
    assert patterns.patterns(quick) == []


def test_an_estimate_over_seeds_has_a_t_interval_and_divergence_is_not_averaged_away():
    found = estimate([1.0, 2.0, 3.0])
    # t(0.975, 2) = 4.3027, standard error 1/√3.
    assert (found.mean, found.high) == (2.0, pytest.approx(2 + 4.30265 / 3**0.5, rel=1e-5))
    assert estimate([1.0, np.inf]).mean == np.inf
    assert estimate([1.0, np.inf]).diverged == 1
    assert verdicts.interval(estimate([4.0])) == "4.00"


def test_numbers_are_short_whatever_their_size():
    shown = [verdicts.figure(v) for v in (0.123, 62.669, 2030.4, 1e51, np.inf)]
    assert shown == ["0.12", "62.67", "2,030", "1.0e51", "overflows"]


def test_rows_of_variants_are_compared_with_the_papers_method():
    assert printed("I", "BRMF, as printed", "sarcos") == NUMBERS["I", "BRMF", "sarcos"] == (8.88, 2.65)
    assert printed("I", "pivoted, tuned", "sarcos") is None
