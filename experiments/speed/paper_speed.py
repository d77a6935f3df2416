"""Time a batch of the paper's methods, in the paper's sizes, and the ratios of these times.

    python -m experiments.speed.paper_speed [SET ...]

Sets: abalone and sarcos_subset unless others are named. Batches of 100, rank 50, oversampling 10, squared exponential,
labels known. `nrmf` factors from scratch at each batch, as the paper does. The ratios hardly depend on the machine.
"""

from functools import partial
from typing import Any

import click
import numpy as np

from experiments.common import command, load, machine, pool_records, undisturbed
from streamgp import StreamingGPRegressor, kernels
from streamgp.evaluation import Record, prequential
from streamgp.parameters import used_by

METHODS = {
    "srmf": {"method": "srmf"},
    "brmf": {"method": "brmf"},
    "rgp": {"method": "rgp"},
    "nrmf, incremental": {"method": "nrmf"},
    "nrmf": {"method": "nrmf", "refactor": True},
}


def stream(arguments: dict[str, Any], X: np.ndarray, y: np.ndarray) -> list[Record]:
    """Return the records of a new regressor, labels known."""
    return list(prequential(StreamingGPRegressor(**used_by(**arguments)), X, y))


@command(__doc__)
@click.argument("sets", nargs=-1)
def main(sets: tuple[str, ...]) -> None:
    """Run each method on each set."""
    print(machine())
    for name in sets or ("abalone", "sarcos_subset"):
        X, y = load(name)
        y = y - y.mean()
        kernel = y.var() * kernels.SquaredExponential(X.std(axis=0) * X.shape[1] ** 0.5)
        common = {"kernel": kernel, "noise": 0.1 * y.var(), "rank": 50, "oversampling": 10, "random_state": 0}
        common["tune"] = "none"
        # Imports, thread pools and the allocator's first page faults are not part of any method's time.
        stream(common | {"method": "srmf"}, X, y)
        seconds = {}
        for label, arguments in METHODS.items():
            measured = undisturbed(partial(stream, common | arguments, X, y))
            each = [r.predict_seconds + r.update_seconds for r in measured.result]
            seconds[label] = np.mean(each)
            print(
                f"{name:14} {label:18} {1e3 * seconds[label]:9.2f} ms a batch   last batch {1e3 * each[-1]:9.2f} ms   "
                f"RMSE {pool_records(measured.result).rmse:7.3f}   others used {measured.others:.2f} cores",
                flush=True,
            )
        for other in ("nrmf", "nrmf, incremental", "brmf", "rgp"):
            print(f"{name:14} {other} / srmf = {seconds[other] / seconds['srmf']:.1f}")


if __name__ == "__main__":
    main()
