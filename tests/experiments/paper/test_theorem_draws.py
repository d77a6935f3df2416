"""Theorem III.1 over draws, and the degenerate objective of step 13."""

import numpy as np
import pytest

from experiments.paper import theorem
from experiments.paper.factors import kernel_matrix, stream_of
from streamgp.datasets import load_arm

ARM = load_arm(1500)


@pytest.mark.parametrize("oversampling", [2, 10])
@pytest.mark.parametrize("length", [0.7, 1.5])
def test_the_bound_of_theorem_iii_1_holds_in_every_draw(oversampling, length):
    study = theorem.draws(ARM, rows=400, length=length, oversampling=oversampling, count=5)
    assert max(study["ratios"]) < 1
    assert len(study["ratios"]) == 5
    # The proof takes σ_{k+1}(K̄) for σ_{k+1}(K); they differ, but not by orders of magnitude.
    assert 0.3 < study["gap_low"] <= study["gap_high"] < 2


def test_no_factor_of_k_plus_p_columns_is_better_than_the_next_singular_value():
    study = theorem.draws(ARM, rows=300, length=1.0, oversampling=5, count=2)
    error = np.array(study["median"]) * np.array(study["bound"])
    K = kernel_matrix(stream_of(ARM, 300), 1.0)
    best = [np.linalg.eigvalsh(K[:n, :n])[::-1][theorem.RANK + 5] for n in study["rows"]]
    assert (error >= 0.999 * np.array(best)).all()


def test_step_13_drives_the_training_error_to_zero_and_not_the_error_on_the_next_rows():
    study = theorem.degenerate(ARM, rows=1000)
    for what, end in (("a0", -1), ("weights", -1), ("noise", 0)):
        train, test = study[what][end]
        assert train < 1e-3 * study["spread"], what
        assert test > 0.05 * study["spread"], what
