"""StreamingGPRegressor() on raw, unscaled data, nothing set but random_state.

    python -m experiments.checks.zero_configuration [seeds] [sets, separated by commas] [name=value ...]

Batches of 100 after a first one of 500; RMSE and NLPD in units of the target's standard deviation in the first
500 rows; coverage of the 90 % intervals after the first 1,000 rows; seconds spent tuning. Medians over seeds.
"""

import ast
import sys

import numpy as np

from experiments.common import load
from streamgp import StreamingGPRegressor
from streamgp.evaluation import prequential

# RMSE and NLPD to reach
GOALS = {
    "sarcos_test": (0.215, -0.20),
    "kin40k": (0.33, None),
    "elevators": (0.378, None),
    "abalone": (0.520, None),
}


def run(name: str, seed: int, **arguments: object) -> tuple[float, float, float, float, float]:
    X, y = load(name)
    scale = y[:500].std()
    gp = StreamingGPRegressor(random_state=seed, **arguments)
    records = [r for r in prequential(gp, X, y, first=500) if r.rmse is not None]
    rows = np.diff([500, *(r.rows_seen for r in records)])
    late = np.array([r.rows_seen > 1000 for r in records])
    coverage = np.array([r.coverage for r in records])
    return (
        float(np.sqrt(np.average([r.rmse**2 for r in records], weights=rows)) / scale),
        float(np.average([r.nlpd for r in records], weights=rows) - np.log(scale)),
        float(np.average(coverage[late], weights=rows[late])),
        gp.tuning_seconds_,
        float(sum(r.predict_seconds + r.update_seconds for r in records)),
    )


def main() -> None:
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    names = sys.argv[2].split(",") if len(sys.argv) > 2 else list(GOALS)
    arguments = {k: ast.literal_eval(v) for k, v in (a.split("=", 1) for a in sys.argv[3:])}
    for name in names:
        results = np.array([run(name, seed, **arguments) for seed in seeds])
        rmse, nlpd, coverage, tuning, rest = np.median(results, axis=0)
        goal = GOALS.get(name, (None, None))
        print(
            f"{name:12} RMSE {rmse:.4f} (goal {goal[0]})  NLPD {nlpd:.3f} (goal {goal[1]})  90 % intervals cover "
            f"{coverage:.1%}  tuning {tuning:.2f} s, all else {rest:.2f} s; RMSE of each seed "
            + " ".join(f"{r:.3f}" for r in results[:, 0]),
            flush=True,
        )


if __name__ == "__main__":
    main()
