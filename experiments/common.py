"""What the experiments share: data sets, standardisation, pooled scores, contention, memory, command line.

Data sets are read from the folder that STREAMGP_DATA names, else from `../shared/data` beside this repository.
NLPD and coverage of a batch are those of `streamgp.evaluation.score`; here they are only averaged.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from sklearn.preprocessing import StandardScaler

from streamgp import StreamingGPRegressor, kernels
from streamgp.datasets import Dataset, load_abalone, load_arm, load_sarcos
from streamgp.errors import DataError
from streamgp.evaluation import Record

ROOT = Path(__file__).resolve().parents[1]
# Rows of the first batch, which also gives the units of a standardised stream, and rows of every later batch.
FIRST, BATCH = 500, 100
# A measurement is repeated if other processes used more than this share of a core meanwhile.
CONTENDED = 0.1


# Data


def data_folder() -> Path:
    """Return the folder that STREAMGP_DATA names, else `../shared/data`."""
    return Path(os.environ.get("STREAMGP_DATA") or ROOT.parent / "shared" / "data")


def load(name: str, folder: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs X (n, d) and one target y (n,) of a stream, in raw units, rows in the order of the benchmark.

    Names: "abalone", "sarcos_test", "sarcos_subset", and any other set kept as `NAME.npz` (elevators, kin40k, …),
    whose rows are shuffled. At most 10,000 rows.
    """
    folder = folder or data_folder()
    try:
        if name == "abalone":
            data = load_abalone(folder)
            return data.X[:4000], data.y[:4000, 0]
        with np.load(folder / ("sarcos_subset.npz" if name == "sarcos_test" else f"{name}.npz")) as file:
            if name == "sarcos_test":
                rows = np.flatnonzero(file["source"] == 1)[:4400]
            elif name == "sarcos_subset":
                rows = np.arange(10_000)
            else:
                rows = np.random.default_rng(0).permutation(len(file["X"]))[:10_000]
            y = file["Y"][:, 0] if name.startswith("sarcos") else file["y"].ravel()
            return file["X"][rows].astype(float), y[rows].astype(float)
    except (OSError, LookupError, TypeError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"the stream {name} cannot be read from {folder}: {error}") from error


def load_whole(name: str, folder: Path | None = None) -> Dataset:
    """Return a whole data set of the paper's experiments, with all targets: "abalone", "sarcos" or "arm".

    Abalone and Sarcos are fetched where there is no folder of data; the arm is simulated.
    """
    if name == "arm":
        return load_arm(10_000)
    loader = {"abalone": load_abalone, "sarcos": load_sarcos}[name]
    return loader(folder or (data_folder() if data_folder().is_dir() else None))


class Standardised(NamedTuple):
    """Inputs X (n, d) and targets y, each column with mean 0 and variance 1 over the first rows; the scale of y."""

    X: np.ndarray
    y: np.ndarray
    scale: Any


def standardise(X: np.ndarray, y: np.ndarray, first: int = FIRST) -> Standardised:
    """Return X (n, d) and y (n,) or (n, q), standardised by their `first` rows."""
    # StandardScaler does not divide by the spread of a feature that is constant but for rounding (1e-22 in elevators).
    X = StandardScaler().fit(X[:first]).transform(X)
    scale = y[:first].std(axis=0)
    return Standardised(X, (y - y[:first].mean(axis=0)) / scale, scale)


def standardised(name: str, folder: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, d) and y (n,) of a stream, standardised by its first 500 rows."""
    return standardise(*load(name, folder))[:2]


@dataclass(frozen=True)
class Hyperparameters:
    """A squared exponential: its variance, a length-scale for each feature (d,), and the noise variance."""

    variance: float
    length_scales: np.ndarray
    noise: float

    @property
    def kernel(self) -> kernels.Kernel:
        """The kernel, without the noise."""
        return self.variance * kernels.SquaredExponential(self.length_scales)


def hyperparameters(name: str, folder: Path | None = None) -> Hyperparameters:
    """Return the hyperparameters of the peers' benchmark for a standardised stream."""
    path = (folder or data_folder()) / "benchmark_hyperparameters.json"
    try:
        given = json.loads(path.read_text())[name]
        lengths = np.array(given["ls"], dtype=float)
        return Hyperparameters(float(given["c"]), lengths, float(given["s2"]))
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise DataError(f"the hyperparameters of {name} cannot be read from {path}: {error}") from error


# Scores


class Scores(NamedTuple):
    """Root mean squared error, mean negative log predictive density and coverage of 90 % intervals."""

    rmse: float
    nlpd: float
    coverage: float


def pool(scores: Sequence[tuple[float, float, float]], rows: Sequence[int] | np.ndarray) -> Scores:
    """Return the scores over all rows, from those of batches and the number of rows of each."""
    errors, densities, covered = np.array(scores).T
    return Scores(
        float(np.sqrt(np.average(errors**2, weights=rows))),
        float(np.average(densities, weights=rows)),
        float(np.average(covered, weights=rows)),
    )


def pool_records(records: Sequence[Record], after: int = 0) -> Scores:
    """Return the scores over all rows that were predicted, from the records of a whole stream.

    Batches that end within the first `after` rows do not count.
    """
    rows = np.diff([0, *(r.rows_seen for r in records)])
    scored = [r.rmse is not None and r.rows_seen > after for r in records]
    found = [(r.rmse, r.nlpd, r.coverage) for r, counts in zip(records, scored, strict=True) if counts]
    return pool(found, rows[scored])


def in_intervals(
    gp: StreamingGPRegressor, X: np.ndarray, y: np.ndarray, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return whether each target lies in its 90 % interval, and the width of each interval, both shaped as y.

    For what `score` does not tell: single rows, and widths. Options are those of `predict`.
    """
    _, low, high = gp.predict(X, return_interval=0.9, **options)
    return (low <= y) & (y <= high), high - low


# Measuring


class Contention:
    """Context manager that measures how much of a core other processes used: `others`, set on exit."""

    others = 0.0

    def __enter__(self) -> Contention:
        self._start = time.perf_counter(), busy_seconds() - _own_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        began, before = self._start
        others = busy_seconds() - _own_seconds() - before
        self.others = max(0.0, others) / (time.perf_counter() - began)


def busy_seconds() -> float:
    """Return the seconds that all cores together were not idle since the start; 0 where there is no /proc."""
    try:
        fields = [int(v) for v in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    except OSError:
        return 0.0
    return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Measured(NamedTuple):
    """The last result of a measurement, the share of a core that others used meanwhile, and how often it was tried."""

    result: Any
    others: float
    tries: int


def undisturbed(run: Callable[[], Any], tries: int = 3) -> Measured:
    """Call `run` until other processes hardly used the machine meanwhile, at most `tries` times."""
    tried = 0
    while True:
        tried += 1
        with Contention() as use:
            result = run()
        if use.others < CONTENDED or tried >= tries:
            return Measured(result, use.others, tried)


def memory_mb(which: str, process: int | str = "self") -> float:
    """Return the memory of a process in MB: now (VmRSS) or at most (VmHWM); 0 where the system does not say."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) / 1024 for line in lines if line.startswith(which)), 0.0)


def machine() -> str:
    """Return architecture, cores and Python's version, for the head of a printed table."""
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def processor() -> str:
    """Return the model of the processor, or the architecture where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


# Command line


def help_text(doc: str | None) -> str:
    """Return the docstring of a module as the help of its command, lines kept as they are."""
    # Click joins the lines of a paragraph unless it begins with \b.
    return "\b\n" + (doc or "").strip().replace("\n\n", "\n\n\b\n")


def command(doc: str | None) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a function a command whose help is `doc`, the docstring of its module."""
    return click.command(help=help_text(doc))


def parts_argument(names: Sequence[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the argument `parts`: some of `names`, all of them if none is given."""

    def chosen(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
        return given or tuple(names)

    kind = click.Choice(tuple(names))
    return click.argument("parts", nargs=-1, type=kind, callback=chosen, metavar="[PART]...")
