"""Random rows, arguments, programs, lines and files: only documented errors, finite answers, refusals change nothing.

    python -m experiments.checks.fuzz [ROWS] [SEED]

100,000 rows and seed 0 unless others are given. Prints what happened how often; an AssertionError is a finding.
"""

import struct
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import click
import numpy as np

import streamgp
from experiments.common import command
from streamgp import StreamingGPRegressor
from streamgp.app.session import Quarantine, Session, Tally
from streamgp.app.tables import open_table
from streamgp.errors import CheckpointError, DataError, StreamGPError
from streamgp.kernels import SquaredExponential

ODD = [
    0.0, -0.0, 1.0, 1e-320, 1e-150, 1e150, 1e153, 1e300, -1e308, 5e-324, np.nan, np.inf, -np.inf, 2**53 + 1.0,
]  # fmt: skip
TEXTS = [
    "", " ", "x", "1e", "0x1p3", "1_000", "١٢", "nan", "-inf", "1e400", '"', '"a""b"', "1;2", "\x00", "\ufeff1",
    "None", "1,5", "é",
]  # fmt: skip
CELLS = [*TEXTS, "1.5", "-2e10", "3", "1e-300", "7e149"]


def numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return normal draws, sometimes at an extreme scale, sometimes with odd values among them."""
    out = rng.standard_normal(shape)
    if rng.random() < 0.3:
        out *= 10.0 ** rng.integers(-150, 150)
    if rng.random() < 0.4:
        hit = rng.random(shape) < rng.choice([0.01, 0.3])
        out[hit] = rng.choice(ODD, int(hit.sum()))
    return out


def batch(rng: np.random.Generator, d: int, q: int) -> tuple[object, object, int]:
    """Return X, y and the number of rows of a batch, sometimes of a wrong type or shape."""
    n = int(rng.choice([1, 2, 5, 30, 120]))
    X: object = numbers(rng, (n, d + int(rng.random() < 0.03)))
    y: object = numbers(rng, (n, q) if q > 1 else (n,))
    kind = rng.random()
    if kind < 0.02:
        X = X.astype(object)
        X[0, 0] = rng.choice(np.array(["text", None, "1.5", b"2"], dtype=object))
    elif kind < 0.04:
        X = X.tolist()
    elif kind < 0.06:
        X, y = X.astype(np.float32), y.astype(np.float32)
    elif kind < 0.07:
        y = y[:-1]
    elif kind < 0.08:
        X = X[0]
    elif kind < 0.10:
        X = np.repeat(X[:1], n, axis=0)
    elif kind < 0.11:
        X = np.round(np.nan_to_num(X, posinf=9, neginf=9) % 100).astype(int)
    return X, y, n


def argument(rng: np.random.Generator) -> dict[str, object]:
    """Return one argument of the constructor, valid or not."""
    choices = {
        "method": ["pivoted", "srmf", "brmf", "nrmf", "rgp", "svgp", None],
        "rank": [1, 3, 20, 60, "auto", 0, -1, 2.5, "many", None],
        "noise": ["auto", 1e-6, 0.1, 1e10, 0, -1, np.nan, "low"],
        "tune": ["none", "doubling", "initial", "hybrid", "continuous", "often", 3],
        "objective": ["evidence", "loo", "training_error", "likelihood"],
        "forgetting": [1.0, 0.9, 0.5, 0, 2, "a"],
        "guard": ["auto", None, 10, 3.0, 0, "x"],
        "kernel": [None, "matern32", "dictionary", "rational_quadratic", "spline", 5, object()],
        "bounds": [(1e-3, 1e3), (1, 1), (5, 2), 3],
        "memory": ["bounded", "rows", "all"],
        "random_state": [0, 7, None, -3, "seed"],
        "tolerance": [0.01, 0.5, 0, 2],
    }  # fmt: skip
    name = rng.choice(list(choices))
    options = choices[name]
    return {name: options[int(rng.integers(len(options)))]}


def finite(answers: object) -> bool:
    """Return whether all numbers in all arrays are finite."""
    return all(np.isfinite(np.asarray(a)).all() for a in answers)


def fuzz_library(rng: np.random.Generator, rows: int, seen: Counter[str]) -> None:
    """Learn and predict odd batches with odd arguments; a refusal must leave the regressor as it was."""
    passed = 0
    while passed < rows:
        d, q = int(rng.integers(1, 6)), int(rng.choice([1, 1, 3]))
        given = {"rank": 20, "random_state": 0, **(argument(rng) if rng.random() < 0.8 else {})}
        gp = StreamingGPRegressor(**given)
        probe = rng.standard_normal((4, d))
        for _ in range(int(rng.integers(1, 12))):
            X, y, n = batch(rng, d, q)
            passed += n
            known = gp.__sklearn_is_fitted__()
            before = attempt(gp, probe) if known else None
            try:
                if known and rng.random() < 0.5:
                    answers = gp.predict(X, return_interval=0.9)
                    seen["predicted"] += 1
                    if not finite(answers):
                        raise AssertionError(f"a prediction is not finite: {given}")
                    continue
                gp.partial_fit(X, y)
                seen["learned"] += 1
            except StreamGPError as error:
                seen[type(error).__name__] += 1
                if known and not same(before, attempt(gp, probe)):
                    raise AssertionError(f"a refusal changed the state: {given}") from error
                if not known and gp.__sklearn_is_fitted__():
                    raise AssertionError(f"a refused first batch was learned: {given}") from error


def attempt(gp: StreamingGPRegressor, X: np.ndarray) -> np.ndarray | str:
    """Return a prediction, or the text of the error that refuses it."""
    try:
        out = gp.predict(X)
    except StreamGPError as error:
        return str(error)
    if not np.isfinite(out).all():
        raise AssertionError("a prediction is not finite")
    return out


def same(before: object, after: object) -> bool:
    """Return whether two attempts were both refused, or gave the same numbers."""
    return type(before) is type(after) and (isinstance(before, str) or np.array_equal(before, after))


class Program:
    """A regressor and, beside it, a plain list of the batches that it must know."""

    def __init__(self, rng: np.random.Generator, folder: Path) -> None:
        self.rng, self.path = rng, folder / "p.gp"
        self.d, self.q = int(rng.integers(1, 5)), int(rng.choice([1, 2]))
        self.given = self._arguments(str(rng.choice(["pivoted", "rgp"])))
        self.gp = StreamingGPRegressor(**self.given)
        self.known: list[tuple[np.ndarray, np.ndarray]] = []

    def _arguments(self, method: str) -> dict[str, Any]:
        rng = self.rng
        given = {"method": method, "rank": int(rng.choice([5, 40, 200])), "random_state": 0, "noise": 0.05,
                 "kernel": 1.0 * SquaredExponential(1.0), "tune": "none"}  # fmt: skip
        if method == "rgp":
            return given | {"basis": rng.standard_normal((60, self.d))}
        memory, tune = str(rng.choice(["bounded", "rows"])), str(rng.choice(["none", "doubling"]))
        return given | {"memory": memory, "tune": tune}

    def rows(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return n rows, some of which may repeat."""
        X = self.rng.standard_normal((n, self.d))
        if self.rng.random() < 0.2:
            X = np.round(X)
        noise = 0.2 * np.round(self.rng.standard_normal((n, self.q)), 1)
        y = np.sin(X.sum(axis=1))[:, None] + noise
        return X, y if self.q > 1 else y[:, 0]

    def learn(self, n: int) -> None:
        """Learn n rows."""
        self.known.append(self.rows(n))
        self.gp.partial_fit(*self.known[-1])

    def unlearn(self, _: int) -> None:
        """Unlearn one of the batches."""
        self.gp.unlearn(*self.known.pop(int(self.rng.integers(len(self.known)))))

    def stranger(self, n: int) -> None:
        """Unlearn n rows that were never learned, which must be refused."""
        try:
            self.gp.unlearn(*(v + 0.0123 for v in self.rows(n)))
        except StreamGPError:
            return
        raise AssertionError(f"rows that were never learned were unlearned: {self.given}")

    def merge(self, n: int) -> None:
        """Merge a regressor of n rows, of another rank where the method allows it."""
        rows = self.rows(n)
        rank = int(self.rng.choice([3, 40])) if self.given["method"] == "pivoted" else self.given["rank"]
        self.gp.merge(StreamingGPRegressor(**(self.given | {"rank": rank})).fit(*rows))
        self.known.append(rows)

    def save(self, _: int) -> None:
        """Save and load."""
        self.gp.save(self.path)
        self.gp = streamgp.load(self.path)

    def check(self) -> None:
        """Raise AssertionError unless rows, certificate and answers are what they must be in every state."""
        gp, n = self.gp, sum(len(X) for X, _ in self.known)
        X = self.rows(9)[0]
        if gp.n_samples_seen_ != n:
            raise AssertionError(f"{gp.n_samples_seen_} rows are counted of {n}: {self.given}")
        if not -1e-6 <= gp.trace_error_share_ <= 1 + 1e-6:
            raise AssertionError(f"a trace error of {gp.trace_error_share_} of tr K: {self.given}")
        if not finite(gp.predict(X, return_interval=0.9)) or not finite([gp.log_evidence()]):
            raise AssertionError(f"a prediction or the evidence is not finite: {self.given}")


def fuzz_programs(rng: np.random.Generator, rows: int, folder: Path, seen: Counter[str]) -> None:
    """Learn, unlearn, merge, save and predict in any order."""
    passed = 0
    while passed < rows:
        program = Program(rng, folder)
        for _ in range(int(rng.integers(3, 30))):
            drawn = str(rng.choice(["learn", "learn", "unlearn", "stranger", "merge", "save"]))
            step = drawn if program.known else "learn"
            n = int(rng.choice([1, 7, 60]))
            passed += n
            getattr(program, step)(n)
            seen[f"program: {step}"] += 1
            program.check()


def write_lines(rng: np.random.Generator, path: Path, n: int) -> None:
    """Write n lines of CSV or JSON, some with odd cells, and change up to three bytes."""
    lines = ["a,b,y"] if path.suffix == ".csv" else []
    for _ in range(n):
        cells = [repr(float(v)) for v in rng.standard_normal(3)]
        if rng.random() < 0.2:
            cells[int(rng.integers(3))] = str(rng.choice(CELLS))
        if rng.random() < 0.02:
            cells = [str(v) for v in rng.choice(CELLS, int(rng.integers(0, 6)))]
        pairs = ",".join(f'"{k}":{v}' for k, v in zip("aby", cells, strict=False))
        lines.append(",".join(cells) if path.suffix == ".csv" else "{" + pairs + "}")
    data = bytearray("\n".join(lines).encode("utf-8", "surrogateescape"))
    for _ in range(int(rng.integers(0, 4))):
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
    path.write_bytes(data)


def fuzz_lines(rng: np.random.Generator, rows: int, folder: Path, seen: Counter[str]) -> None:
    """Run files of odd lines; every row must be learned or counted as refused."""
    done = 0
    while done < rows:
        n = int(rng.integers(1, 400))
        done += n
        path = folder / f"t.{'csv' if rng.random() < 0.7 else 'jsonl'}"
        write_lines(rng, path, n)
        try:
            reader = open_table(str(path))
            if not {"a", "b", "y"} <= set(reader.columns):
                seen["other columns"] += 1
                continue
            gp = StreamingGPRegressor(rank=15, random_state=0, guard=[None, 10, "auto"][rng.integers(3)])
            session = Session(
                gp,
                ("y",),
                level=0.9,
                on_error="skip",
                writer=None,
                quarantine=Quarantine(None),
                tally=Tally(1),
            )
            for part in session.run(reader.batches(("a", "b"), ("y",), 50), lambda: False):
                if not (np.isfinite(part.X).all() and not np.isinf(part.y).any()):
                    raise AssertionError("the reader passed on numbers that are not finite")
            tally = session.tally
            seen["lines learned"] += tally.learned
            seen["lines refused"] += tally.bad + tally.refused
            if tally.learned + tally.bad + tally.refused + tally.unlabelled != tally.rows:
                raise AssertionError("some rows were neither learned nor refused")
        except DataError as error:
            seen[type(error).__name__] += 1


def fuzz_files(rng: np.random.Generator, files: int, folder: Path, seen: Counter[str]) -> None:
    """Load checkpoints with changed, cut or inserted bytes; each must be refused."""
    X = rng.standard_normal((80, 2))
    path = folder / "m.gp"
    StreamingGPRegressor(rank=10, random_state=0).fit(X, X[:, 0]).save(path)
    whole = path.read_bytes()
    for _ in range(files):
        data = bytearray(whole)
        for _ in range(int(rng.integers(1, 5))):
            kind, at = rng.random(), int(rng.integers(len(data)))
            if kind < 0.4:
                data[at] = int(rng.integers(256))
            elif kind < 0.6:
                data = data[:at] or data
            elif kind < 0.8:
                data[at:at] = rng.bytes(int(rng.integers(1, 20)))
            else:
                data[8:12] = struct.pack("<I", int(rng.integers(2**32)))
        path.write_bytes(data)
        try:
            streamgp.load(path)
            seen["file loaded"] += 1
            if data != whole:
                raise AssertionError("a damaged file was loaded")
        except CheckpointError:
            seen["file refused"] += 1


def fuzz_all(rng: np.random.Generator, rows: int, files: int) -> Counter[str]:
    """Return what happened how often, over `rows` rows and `files` damaged checkpoints."""
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        fuzz_library(rng, rows // 3, seen)
        fuzz_programs(rng, rows // 3, Path(name), seen)
        fuzz_lines(rng, rows // 3, Path(name), seen)
        fuzz_files(rng, files, Path(name), seen)
    return seen


@command(__doc__)
@click.argument("rows", default=100_000, type=click.IntRange(3))
@click.argument("seed", default=0, type=click.IntRange(0))
def main(rows: int, seed: int) -> None:
    """Run all and print the counts."""
    warnings.simplefilter("ignore")
    seen = fuzz_all(np.random.default_rng(seed), rows, 2000)
    print(f"{rows:,} rows, seed {seed}: " + ", ".join(f"{what} {n:,}" for what, n in sorted(seen.items())))


if __name__ == "__main__":
    main()
