"""Accuracy of `pivoted` on the streams of the benchmark, hyperparameters frozen, all else at its default.

    python -m experiments.checks.pivoted_accuracy [SEEDS]

Batches of 100 after a first one of 500; RMSE and mean negative log predictive density on the standardised target,
medians over SEEDS seeds (default 5). The hyperparameters of sarcos_subset are fitted here, to its first 500 rows.
"""

import warnings
from typing import NamedTuple

import click
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from experiments.common import FIRST, Scores, command, hyperparameters, pool_records, standardised
from streamgp import StreamingGPRegressor, kernels
from streamgp.evaluation import prequential


class Goal(NamedTuple):
    """RMSE and NLPD to reach on a set at a rank."""

    name: str
    rank: int
    rmse: float
    nlpd: float


GOALS = [
    Goal("sarcos_test", 500, 0.235, -0.18),
    Goal("sarcos_subset", 200, 0.190, -0.14),
    Goal("sarcos_subset", 500, 0.174, -0.47),
    Goal("kin40k", 500, 0.315, 0.23),
    Goal("kin40k", 1000, 0.26, 0.00),
    Goal("elevators", 200, 0.377, 0.445),
    Goal("abalone", 200, 0.517, 0.766),
]


def fitted(X: np.ndarray, y: np.ndarray) -> tuple[kernels.Kernel, float]:
    """Return a squared exponential and a noise variance, fitted by scikit-learn."""
    d = X.shape[1]
    start = ConstantKernel(3.0, (1e-3, 1e3)) * RBF(np.full(d, 5.0), (1e-2, 1e3)) + WhiteKernel(
        0.01, (1e-6, 10.0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp = GaussianProcessRegressor(start, random_state=0).fit(X, y)
    read = kernels.as_kernel(gp.kernel_)
    return read.without_nugget(), read.nugget


def run(name: str, rank: int, seed: int, given: tuple[kernels.Kernel, float]) -> Scores:
    """Return the scores of a stream with this kernel and noise."""
    X, y = standardised(name)
    gp = StreamingGPRegressor(
        given[0], tune="none", noise=given[1], method="pivoted", rank=rank, random_state=seed
    )
    return pool_records(list(prequential(gp, X, y, first=FIRST)))


@command(__doc__)
@click.argument("seeds", default=5, type=click.IntRange(1))
def main(seeds: int) -> None:
    """Print a row for each set and rank."""
    X, y = standardised("sarcos_subset")
    subset = fitted(X[:FIRST], y[:FIRST])
    print(f"{'set':14} {'rank':>4}  {'RMSE':>6} goal   {'NLPD':>7} goal    coverage  RMSE of each seed")
    for goal in GOALS:
        found = None if goal.name == "sarcos_subset" else hyperparameters(goal.name)
        given = subset if found is None else (found.kernel, found.noise)
        results = np.array([run(goal.name, goal.rank, seed, given) for seed in range(seeds)])
        rmse, nlpd, coverage = np.median(results, axis=0)
        each = " ".join(f"{r:.3f}" for r in results[:, 0])
        print(
            f"{goal.name:14} {goal.rank:4}  {rmse:.4f} {goal.rmse:.3f}  {nlpd:7.4f} {goal.nlpd:6.3f}  "
            f"{coverage:.1%}  {each}",
            flush=True,
        )


if __name__ == "__main__":
    main()
