"""What tuning costs and brings: the paper's kernel in each mode, an evaluation against n, and scikit-learn's fit.

python -m experiments.checks.tuning [evaluation] [ratio] [sklearn] [dictionary] [modes]
"""

import sys
import time
import warnings

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from experiments.checks.zero_configuration import run
from experiments.common import Contention, load, machine
from streamgp import StreamingGPRegressor, kernels
from streamgp._arrays import one_blas_thread
from streamgp.errors import NegativeVarianceWarning
from streamgp.evaluation import Record, prequential, self_training
from streamgp.methods import AffineModel

KERNEL = kernels.DistancePolynomial((1.0, 1.0, 1.0))
RANK = 100


def evaluation() -> None:
    """Time one objective evaluation at two numbers of rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 21))
    y = np.sin(X[:, :1]) + 0.1 * rng.standard_normal((100_000, 1))
    kernel = kernels.BrownianPolynomial((0.0, 1.0, 1.0))
    sizes, mixtures = (1000, 100_000), {}
    with one_blas_thread():
        for n in sizes:
            model = AffineModel.empty(kernel, 0.1, RANK, 10, 0, X, y, sequential=True)
            for i in range(0, n, 1000):
                model = model.observe(X[i : i + 1000], y[i : i + 1000])
            mixtures[n] = model.mixture
        for objective in ("evidence", "loo", "training_error"):
            times: dict[int, list[float]] = {n: [] for n in sizes}
            for _ in range(200):
                for n in sizes:
                    start = time.perf_counter()
                    mixtures[n].worth(kernel.amounts, 0.1, objective)
                    times[n].append(time.perf_counter() - start)
            few, many = (1e3 * float(np.median(times[n])) for n in sizes)
            print(
                f"one evaluation of {objective:14}: {few:.2f} ms at n = 1,000, {many:.2f} at 100,000: "
                f"ratio {many / few:.2f}"
            )


def ratio() -> None:
    """Compare continuous tuning with none, srmf, 10,000 rows of Sarcos, three times in turn."""
    times: dict[str, list[float]] = {"none": [], "continuous": []}
    for _ in range(3):
        for mode, each in times.items():
            with Contention() as use:
                records = stream("sarcos_subset", "srmf", mode, prequential, 10_000)
            if use.others < 0.1:
                each.append(float(np.mean([seconds(r) for r in records])))
    none, continuous = (1e3 * float(np.median(each)) for each in times.values())
    print(
        f"srmf, 10,000 rows of Sarcos: none {none:.2f} ms a batch, continuous {continuous:.2f}, tuning included: "
        f"{continuous / none:.2f} ×"
    )


def sklearn() -> None:
    """Compare all tuning of the SARCOS-test run with one fit of scikit-learn on 1,000 rows."""
    X, y = load("sarcos_test")
    scale = X[:1000].std(axis=0)
    A, b = (X[:1000] - X[:1000].mean(axis=0)) / scale, (y[:1000] - y[:1000].mean()) / y[:1000].std()
    kernel = ConstantKernel(1.0) * RBF(np.full(21, 21**0.5)) + WhiteKernel(0.1)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        GaussianProcessRegressor(kernel, random_state=0).fit(A, b)
    theirs = time.perf_counter() - start
    ours = run("sarcos_test", 0)[3]
    print(
        f"scikit-learn's fit of 1,000 rows {theirs:.1f} s; all our tuning {ours:.2f} s: {theirs / ours:.1f} ×"
    )


def dictionary() -> None:
    """Compare tuned length-scales with a dictionary whose weights are tuned."""
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
    return record.predict_seconds + record.update_seconds + record.tuning_seconds


def stream(name: str, method: str, mode: str, protocol: object, n: int) -> list[Record]:
    X, y = load(name)
    gp = StreamingGPRegressor(
        KERNEL, method=method, rank=RANK, tune=mode, objective="training_error", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NegativeVarianceWarning)
        return list(protocol(gp, X[:n], y[:n]))


def modes() -> None:
    """Run the paper's kernel in each mode and protocol; where a cell would take long, on fewer rows."""
    for name, n_all in (("abalone", 4000), ("sarcos_subset", 10_000)):
        for protocol in (self_training, prequential):
            for method in ("nrmf", "brmf", "srmf"):
                for mode in ("none", "continuous", "initial", "hybrid"):
                    if mode == "hybrid" and method == "nrmf":
                        continue
                    n = min(n_all, {"nrmf": 2000, "brmf": 4000, "srmf": n_all}[method])
                    records = stream(name, method, mode, protocol, n)
                    rmse = np.sqrt(np.mean([r.rmse**2 for r in records if r.rmse is not None]))
                    each = 1e3 * np.mean([seconds(r) for r in records])
                    print(
                        f"{name:14} {protocol.__name__:14} {method} {mode:11} {n:6} rows  RMSE {rmse:9.3f}  "
                        f"{each:8.2f} ms a batch",
                        flush=True,
                    )


def main() -> None:
    print(machine())
    parts = {
        "evaluation": evaluation,
        "ratio": ratio,
        "sklearn": sklearn,
        "dictionary": dictionary,
        "modes": modes,
    }
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
