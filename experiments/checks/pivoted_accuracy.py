"""Accuracy of `pivoted` on the peers' streams, hyperparameters frozen, one setting of everything else.

    python -m experiments.checks.pivoted_accuracy [seeds]

Batches of 100 after a first one of 500; RMSE and mean negative log predictive density on the standardised
target, median over seeds. The Sarcos subset's hyperparameters are fitted here, on its first 500 rows.
"""

import sys
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from experiments.common import hyperparameters, standardised
from streamgp import StreamingGPRegressor, kernels
from streamgp.evaluation import prequential

# set, rank, RMSE and NLPD to reach
GOALS = [
    ("sarcos_test", 500, 0.235, -0.18),
    ("sarcos_subset", 200, 0.190, -0.14),
    ("sarcos_subset", 500, 0.174, -0.47),
    ("kin40k", 500, 0.315, 0.23),
    ("kin40k", 1000, 0.26, 0.00),
    ("elevators", 200, 0.377, 0.445),
    ("abalone", 200, 0.517, 0.766),
]


def fitted(X: np.ndarray, y: np.ndarray) -> tuple[kernels.Kernel, float]:
    d = X.shape[1]
    start = ConstantKernel(3.0, (1e-3, 1e3)) * RBF(np.full(d, 5.0), (1e-2, 1e3)) + WhiteKernel(
        0.01, (1e-6, 10.0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp = GaussianProcessRegressor(start, random_state=0).fit(X, y)
    read = kernels.as_kernel(gp.kernel_)
    return read.without_nugget(), read.nugget


def run(name: str, rank: int, seed: int, given: tuple[kernels.Kernel, float]) -> tuple[float, float, float]:
    X, y = standardised(name)
    gp = StreamingGPRegressor(
        given[0], tune="none", noise=given[1], method="pivoted", rank=rank, random_state=seed
    )
    records = [r for r in prequential(gp, X, y, first=500) if r.rmse is not None]
    rows = np.diff([500, *(r.rows_seen for r in records)])
    mean = [np.average([getattr(r, f) for r in records], weights=rows) for f in ("nlpd", "coverage")]
    return float(np.sqrt(np.average([r.rmse**2 for r in records], weights=rows))), *mean


def main() -> None:
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    X, y = standardised("sarcos_subset")
    subset = fitted(X[:500], y[:500])
    print(f"{'set':14} {'rank':>4}  {'RMSE':>6} goal   {'NLPD':>7} goal    coverage  RMSE of each seed")
    for name, rank, rmse_goal, nlpd_goal in GOALS:
        given = subset if name == "sarcos_subset" else hyperparameters(name)
        results = np.array([run(name, rank, seed, given) for seed in seeds])
        rmse, nlpd, coverage = np.median(results, axis=0)
        each = " ".join(f"{r:.3f}" for r in results[:, 0])
        print(
            f"{name:14} {rank:4}  {rmse:.4f} {rmse_goal:.3f}  {nlpd:7.4f} {nlpd_goal:6.3f}  {coverage:.1%}  {each}",
            flush=True,
        )


if __name__ == "__main__":
    main()
