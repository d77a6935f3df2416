"""Time a batch of the paper's methods, one run each, in the paper's sizes.

    python -m experiments.speed.paper_speed

Batches of 100, rank 50, oversampling 10, squared exponential, labels known. `nrmf` factors from scratch
each batch, as the paper does. The ratios are what survives a change of machine.
"""

import sys

import numpy as np

from experiments.common import Contention, load, machine
from streamgp import StreamingGPRegressor, kernels
from streamgp.evaluation import prequential

METHODS = {
    "srmf": {"method": "srmf"},
    "brmf": {"method": "brmf"},
    "rgp": {"method": "rgp"},
    "nrmf, incremental": {"method": "nrmf"},
    "nrmf": {"method": "nrmf", "refactor": True},
}


def main() -> None:
    print(machine())
    for name in sys.argv[1:] or ("abalone", "sarcos_subset"):
        X, y = load(name)
        y = y - y.mean()
        kernel = y.var() * kernels.SquaredExponential(X.std(axis=0) * X.shape[1] ** 0.5)
        common = {"kernel": kernel, "noise": 0.1 * y.var(), "rank": 50, "oversampling": 10, "random_state": 0}
        common["tune"] = "none"
        # Imports, thread pools and the allocator's first page faults belong to no method.
        list(prequential(StreamingGPRegressor(method="srmf", **common), X, y))
        seconds = {}
        for label, arguments in METHODS.items():
            for _ in range(3):
                gp = StreamingGPRegressor(**common, **arguments)
                with Contention() as machine_use:
                    records = list(prequential(gp, X, y))
                if machine_use.others < 0.1:
                    break
            seconds[label] = np.mean([r.predict_seconds + r.update_seconds for r in records])
            error = np.sqrt(np.mean([r.rmse**2 for r in records if r.rmse is not None]))
            print(
                f"{name:14} {label:18} {1e3 * seconds[label]:9.2f} ms a batch   last batch "
                f"{1e3 * (records[-1].predict_seconds + records[-1].update_seconds):9.2f} ms   "
                f"RMSE {error:7.3f}   others used {machine_use.others:.2f} cores",
                flush=True,
            )
        for other in ("nrmf", "nrmf, incremental", "brmf", "rgp"):
            print(f"{name:14} {other} / srmf = {seconds[other] / seconds['srmf']:.1f}")


if __name__ == "__main__":
    main()
