"""What tuning costs and gains: an evaluation against n, continuous tuning, scikit-learn's fit, kernels, modes.

    python -m experiments.checks.tuning [evaluation] [ratio] [sklearn] [dictionary] [modes]

All parts unless some are named.
"""

import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from experiments.checks.zero_configuration import run
from experiments.common import (
    CONTENDED,
    Contention,
    command,
    load,
    machine,
    parts_argument,
    pool_records,
    standardise,
)
from experiments.internals import learned_objectives, one_blas_thread, used_by
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import NegativeVarianceWarning
from streamgp.evaluation import Record, prequential, self_training

KERNEL = kernels.DistancePolynomial((1.0, 1.0, 1.0))
RANK = 100


def evaluation() -> None:
    """Print the time of one evaluation of an objective after 1,000 and after 100,000 rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 21))
    y = np.sin(X[:, :1]) + 0.1 * rng.standard_normal((100_000, 1))
    kernel = kernels.BrownianPolynomial((0.0, 1.0, 1.0))
    sizes = (1000, 100_000)
    with one_blas_thread():
        objectives = {n: learned_objectives(kernel, X[:n], y[:n], RANK) for n in sizes}
        for objective in ("evidence", "loo", "training_error"):
            times: dict[int, list[float]] = {n: [] for n in sizes}
            for _ in range(200):
                for n in sizes:
                    start = time.perf_counter()
                    objectives[n][objective](kernel, 0.1)
                    times[n].append(time.perf_counter() - start)
            few, many = (1e3 * float(np.median(times[n])) for n in sizes)
            print(
                f"one evaluation of {objective:14}: {few:.2f} ms at n = 1,000, {many:.2f} at 100,000: "
                f"ratio {many / few:.2f}"
            )


def ratio() -> None:
    """Print the time of a batch with continuous tuning and without: srmf, 10,000 rows of Sarcos, three runs in turn."""
    times: dict[str, list[float]] = {"none": [], "continuous": []}
    for _ in range(3):
        for mode, each in times.items():
            with Contention() as use:
                records = stream("sarcos_subset", "srmf", mode, prequential, 10_000)
            if use.others < CONTENDED:
                each.append(float(np.mean([seconds(r) for r in records])))
    none, continuous = (1e3 * float(np.median(each)) for each in times.values())
    print(
        f"srmf, 10,000 rows of Sarcos: none {none:.2f} ms a batch, continuous {continuous:.2f}, tuning included: "
        f"{continuous / none:.2f} ×"
    )


def sklearn() -> None:
    """Print the time of all tunings of the SARCOS-test stream, and of one fit of scikit-learn to 1,000 rows."""
    X, y = load("sarcos_test")
    X, y, _ = standardise(X[:1000], y[:1000], first=1000)
    kernel = ConstantKernel(1.0) * RBF(np.full(21, 21**0.5)) + WhiteKernel(0.1)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        GaussianProcessRegressor(kernel, random_state=0).fit(X, y)
    theirs = time.perf_counter() - start
    ours = run("sarcos_test", 0).tuning_seconds
    print(
        f"scikit-learn's fit of 1,000 rows {theirs:.1f} s; all our tuning {ours:.2f} s: {theirs / ours:.1f} ×"
    )


def dictionary() -> None:
    """Print scores with tuned length-scales, and with a dictionary of kernels whose weights are tuned."""
    for name in ("sarcos_test", "kin40k", "elevators", "abalone"):
        for kernel in (None, "dictionary"):
            results = np.array([run(name, seed, kernel=kernel) for seed in range(3)])
            rmse, nlpd, coverage, tuning, rest = np.median(results, axis=0)
            print(
                f"{name:12} {kernel or 'length-scales':14} RMSE {rmse:.4f}  NLPD {nlpd:.3f}  coverage {coverage:.1%}  "
                f"tuning {tuning:.2f} s, all else {rest:.2f} s",
                flush=True,
            )


def seconds(record: Record) -> float:
    """Return the seconds of a batch: predicted, learned, tuned."""
    return record.predict_seconds + record.update_seconds + record.tuning_seconds


def stream(name: str, method: str, mode: str, protocol: object, n: int) -> list[Record]:
    """Return the records of the first n rows of a set with the distance polynomial and the training error."""
    X, y = load(name)
    gp = StreamingGPRegressor(
        KERNEL, **used_by(method, rank=RANK), tune=mode, objective="training_error", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NegativeVarianceWarning)
        return list(protocol(gp, X[:n], y[:n]))


def modes() -> None:
    """Print the error of the paper's kernel in each mode and protocol, on fewer rows where a run would take long."""
    for name, n_all in (("abalone", 4000), ("sarcos_subset", 10_000)):
        for protocol in (self_training, prequential):
            for method in ("nrmf", "brmf", "srmf"):
                for mode in ("none", "continuous", "initial", "hybrid"):
                    if mode == "hybrid" and method == "nrmf":
                        continue
                    n = min(n_all, {"nrmf": 2000, "brmf": 4000, "srmf": n_all}[method])
                    records = stream(name, method, mode, protocol, n)
                    rmse = pool_records(records).rmse
                    each = 1e3 * np.mean([seconds(r) for r in records])
                    print(
                        f"{name:14} {protocol.__name__:14} {method} {mode:11} {n:6} rows  RMSE {rmse:9.3f}  "
                        f"{each:8.2f} ms a batch",
                        flush=True,
                    )


PARTS: dict[str, Callable[[], None]] = {
    "evaluation": evaluation,
    "ratio": ratio,
    "sklearn": sklearn,
    "dictionary": dictionary,
    "modes": modes,
}


@command(__doc__)
@parts_argument(list(PARTS))
def main(parts: tuple[str, ...]) -> None:
    """Run the parts."""
    print(machine())
    for name in parts:
        PARTS[name]()


if __name__ == "__main__":
    main()
