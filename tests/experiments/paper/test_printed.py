"""Verdicts on our numbers beside those that the paper prints."""

import numpy as np

from experiments.paper import page
from experiments.paper.printed import NUMBERS, REASONS, verdict


def test_verdicts_follow_the_numbers_and_every_difference_has_a_reason():
    assert verdict("I", "SRMF", "abalone", "self-training", 2.9) == "better"
    assert verdict("I", "SRMF", "abalone", "self-training", 3.25) == "agrees"
    assert verdict("I", "SRMF, tuned once", "sarcos", "self-training", 12.0).startswith("differs: these are")
    assert verdict("I", "SRMF", "sarcos", "self-training", np.inf).startswith("diverges")
    assert verdict("I", "SRMF, as printed", "sarcos", "self-training", np.inf).startswith(
        "diverges: the algorithm"
    )
    assert verdict("I", "pivoted", "sarcos", "self-training", 1.0) == "not in the paper"
    assert set(REASONS) <= set(NUMBERS)


def test_a_failed_run_shows_as_such():
    run = {"rmse": [None, 1.0], "seconds": [], "failure": "stopped after 1 batches: no"}
    assert page.mean_rmse(run) == np.inf
