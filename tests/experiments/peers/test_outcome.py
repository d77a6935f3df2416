"""Tables and verdicts of the benchmark."""

import json

import pytest

from experiments.common import ROOT
from experiments.peers.outcome import rows_of, short_table, verdict
from experiments.peers.protocol import SETS


def result(peer, error, seconds, batches=40):
    return {"peer": peer, "batches": [[error, seconds]] * batches}


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (("goppy", 0.3, 1.0), "pivoted 500: as accurate, 100 × faster"),
        (("goppy", 0.31, 1.0), "pivoted 500: 3.2% less error, 100 × faster"),
        (("goppy", 1e9, 1.0), "pivoted 500: 100.0% less error, 100 × faster"),
        (("river, Bayesian linear", 0.5, 0.004), "pivoted 100: 20.0% less error, 2.0 × faster"),
        (("goppy", 0.2, 1.0), "exact (nrmf): as accurate, 4.0 × faster"),
        (
            ("goppy", 0.2, 0.1),
            "not both: exact (nrmf): as accurate, 2.5 × slower; pivoted 500: 50.0% more error, 10 × faster "
            "(exact: it keeps every row)",
        ),
        (
            ("goppy", 0.1, 0.001),
            "not both: no streamgp is as accurate or as fast (exact: it keeps every row)",
        ),
    ],
)
def test_a_verdict_names_ours_that_is_better_in_both_or_says_what_is_missing(theirs, said):
    ours = [("pivoted 100", 0.4, 0.002), ("pivoted 500", 0.3, 0.01), ("exact (nrmf)", 0.2, 0.25)]
    assert verdict(result(*theirs, batches=20), {o[0]: result(*o) for o in ours}) == said


@pytest.mark.parametrize("page", ["README.md", "docs/bench.md"])
def test_the_table_of_a_page_is_that_of_the_kept_run(page):
    results = json.loads((ROOT / "experiments" / "results" / "bench.json").read_text())["results"]
    assert "\n".join(short_table(results)) in (ROOT / page).read_text()
    if page != "README.md":
        assert all(
            " | ".join(row) in (ROOT / page).read_text() for name in SETS for row in rows_of(results, name)
        )
