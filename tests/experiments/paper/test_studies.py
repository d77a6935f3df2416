"""Theorem 1, and where the printed algorithm diverges."""

import numpy as np
import pytest

from experiments.paper import studies
from streamgp.datasets import load_arm


@pytest.mark.parametrize("rank", [10, 30])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_bound_of_theorem_1_holds(rank, seed):
    study = studies.theorem(load_arm(1500, seed=seed), quick=True, seed=seed, rank=rank)
    for kind in ("literal", "projected"):
        assert (np.array(study[kind]) <= np.array(study["bound"])).all()
    # No factor of this rank is better than the next singular value.
    assert (np.array(study["projected"]) >= 0.999 * np.array(study["best"])).all()


def test_the_printed_algorithm_diverges_where_rank_and_noise_are_small_and_the_projected_one_does_not():
    study = studies.robustness(load_arm(1500), quick=True, seed=0)
    projected = np.array(study["projected"], dtype=float)
    literal = np.array([[np.inf if v is None else v for v in row] for row in study["literal"]])
    assert (projected < 2).all()
    assert literal[0, 0] > 10 * projected[0, 0]
