"""Counts and scores of a run."""

from streamgp.app.tally import POINTS, BatchScore, Tally


def test_the_history_of_a_long_run_stays_short():
    tally = Tally(1)
    for _ in range(5000):
        tally.rows += 10
        tally.add_batch(BatchScore(10.0, 1.0, 9.0), 0.5)
    assert len(tally.history) <= POINTS
    assert sum(p.batches for p in tally.history) == 5000
    assert sum(p.scored for p in tally.history) == 50_000
