"""Fuzzed rows, arguments, programs, lines, files: only documented errors and finite answers, refusals change nothing.

python -m experiments.checks.fuzz [rows] [seed]
"""

import struct
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import streamgp
from streamgp import StreamingGPRegressor
from streamgp.app.session import Quarantine, Session, Tally
from streamgp.app.tables import open_table
from streamgp.errors import CheckpointError, DataError, StreamGPError
from streamgp.kernels import SquaredExponential

ODD = [
    0.0,
    -0.0,
    1.0,
    1e-320,
    1e-150,
    1e150,
    1e153,
    1e300,
    -1e308,
    5e-324,
    np.nan,
    np.inf,
    -np.inf,
    2**53 + 1.0,
]
TEXTS = [
    "",
    " ",
    "x",
    "1e",
    "0x1p3",
    "1_000",
    "١٢",
    "nan",
    "-inf",
    "1e400",
    '"',
    '"a""b"',
    "1;2",
    "\x00",
    "\ufeff1",
    "None",
    "1,5",
    "é",
]
CELLS = [*TEXTS, "1.5", "-2e10", "3", "1e-300", "7e149"]


def numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Ordinary numbers, at an odd scale now and then, some of them odd."""
    out = rng.standard_normal(shape)
    if rng.random() < 0.3:
        out *= 10.0 ** rng.integers(-150, 150)
    if rng.random() < 0.4:
        hit = rng.random(shape) < rng.choice([0.01, 0.3])
        out[hit] = rng.choice(ODD, int(hit.sum()))
    return out


def batch(rng: np.random.Generator, d: int, q: int) -> tuple[object, object, int]:
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
    """One argument of the constructor, sensible or not."""
    choices = {
        "method": ["pivoted", "srmf", "brmf", "nrmf", "rgp", "svgp", None],
        "rank": [1, 3, 20, 60, "auto", 0, -1, 2.5, "many", None],
        "noise": ["auto", 1e-6, 0.1, 1e10, 0, -1, np.nan, "low"],
        "tune": ["none", "doubling", "initial", "hybrid", "continuous", "often", 3],
        "objective": ["evidence", "loo", "training_error", "likelihood"],
        "forgetting": [1.0, 0.9, 0.5, 0, 2, "a"],
        "guard": [None, 10, 3.0, 0, "x"],
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
    return all(np.isfinite(np.asarray(a)).all() for a in answers)


def fuzz_library(rng: np.random.Generator, rows: int, seen: Counter[str]) -> None:
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
                        raise AssertionError(f"not finite: {given}")
                    continue
                gp.partial_fit(X, y)
                seen["learned"] += 1
            except StreamGPError as error:
                seen[type(error).__name__] += 1
                if known:
                    after = attempt(gp, probe)
                    same = type(before) is type(after) and (
                        isinstance(before, str) or np.array_equal(before, after)
                    )
                    if not same:
                        raise AssertionError(f"a refusal changed the state: {given}") from error
                elif gp.__sklearn_is_fitted__():
                    raise AssertionError("a refused first batch left something") from error


def fuzz_programs(rng: np.random.Generator, rows: int, folder: Path, seen: Counter[str]) -> None:
    """Learn, unlearn, merge, save and predict in any order, beside a plain list of what was learned."""
    passed = 0
    while passed < rows:
        d, q, method = int(rng.integers(1, 5)), int(rng.choice([1, 2])), str(rng.choice(["pivoted", "rgp"]))
        given = {"method": method, "rank": int(rng.choice([5, 40, 200])), "random_state": 0, "noise": 0.05,
                 "kernel": 1.0 * SquaredExponential(1.0), "tune": "none"}  # fmt: skip
        if method == "pivoted":
            given |= {
                "memory": str(rng.choice(["bounded", "rows"])),
                "tune": str(rng.choice(["none", "doubling"])),
            }
        else:
            given["basis"] = rng.standard_normal((60, d))
        gp, known = StreamingGPRegressor(**given), []

        def make(n: int, d: int = d, q: int = q) -> tuple[np.ndarray, np.ndarray]:
            X = rng.standard_normal((n, d))
            if rng.random() < 0.2:
                X = np.round(X)  # rows that repeat
            y = np.sin(X.sum(axis=1))[:, None] + 0.2 * np.round(rng.standard_normal((n, q)), 1)
            return X, y if q > 1 else y[:, 0]

        for _ in range(int(rng.integers(3, 30))):
            what, n = (
                str(rng.choice(["learn", "learn", "unlearn", "stranger", "merge", "save"])),
                int(rng.choice([1, 7, 60])),
            )
            passed += n
            if what == "learn" or not known:
                batch = make(n)
                gp.partial_fit(*batch)
                known.append(batch)
            elif what == "unlearn":
                batch = known.pop(int(rng.integers(len(known))))
                gp.unlearn(*batch)
            elif what == "stranger":
                try:
                    gp.unlearn(*(v + 0.0123 for v in make(n)))
                except StreamGPError:
                    seen["stranger refused"] += 1
                else:
                    raise AssertionError(f"rows that were never learned were unlearned: {given}")
            elif what == "merge":
                batch = make(n)
                gp.merge(
                    StreamingGPRegressor(
                        **{
                            **given,
                            "rank": int(rng.choice([3, 40])) if method == "pivoted" else given["rank"],
                        }
                    ).fit(*batch)
                )
                known.append(batch)
            else:
                gp.save(folder / "p.gp")
                gp = streamgp.load(folder / "p.gp")
            seen[f"program: {what}"] += 1
            check(gp, sum(len(X) for X, _ in known), make(9)[0], given)


def check(gp: StreamingGPRegressor, n: int, X: np.ndarray, given: dict[str, object]) -> None:
    """Look at what must hold of every state."""
    if gp.n_samples_seen_ != n:
        raise AssertionError(f"{gp.n_samples_seen_} rows are counted of {n}: {given}")
    if not -1e-6 <= gp.trace_error_share_ <= 1 + 1e-6:
        raise AssertionError(f"a certificate of {gp.trace_error_share_}: {given}")
    if not finite(gp.predict(X, return_interval=0.9)) or not finite([gp.log_evidence()]):
        raise AssertionError(f"not finite: {given}")


def attempt(gp: StreamingGPRegressor, X: np.ndarray) -> np.ndarray | str:
    try:
        out = gp.predict(X)
    except StreamGPError as error:
        return str(error)
    if not np.isfinite(out).all():
        raise AssertionError("not finite")
    return out


def fuzz_lines(rng: np.random.Generator, rows: int, folder: Path, seen: Counter[str]) -> None:
    done = 0
    while done < rows:
        n = int(rng.integers(1, 400))
        done += n
        kind = "csv" if rng.random() < 0.7 else "jsonl"
        path = folder / f"t.{kind}"
        lines = ["a,b,y"] if kind == "csv" else []
        for _ in range(n):
            cells = [repr(float(v)) for v in rng.standard_normal(3)]
            if rng.random() < 0.2:
                cells[int(rng.integers(3))] = str(rng.choice(CELLS))
            if rng.random() < 0.02:
                cells = [str(v) for v in rng.choice(CELLS, int(rng.integers(0, 6)))]
            lines.append(
                ",".join(cells)
                if kind == "csv"
                else "{" + ",".join(f'"{k}":{v}' for k, v in zip("aby", cells, strict=False)) + "}"
            )
        data = bytearray("\n".join(lines).encode("utf-8", "surrogateescape"))
        for _ in range(int(rng.integers(0, 4))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        path.write_bytes(data)
        try:
            reader = open_table(str(path))
            if not {"a", "b", "y"} <= set(reader.columns):
                seen["other columns"] += 1
                continue
            gp = StreamingGPRegressor(rank=15, random_state=0, guard=rng.choice([None, 10]))
            session = Session(gp, ("y",), 0.9, "skip", None, Quarantine(None), Tally(1))
            for part in session.run(reader.batches(("a", "b"), ("y",), 50), lambda: False):
                if not (np.isfinite(part.X).all() and not np.isinf(part.y).any()):
                    raise AssertionError("the reader let through what is not finite")
            tally = session.tally
            seen["lines learned"] += tally.learned
            seen["lines refused"] += tally.bad + tally.impossible
            if tally.learned + tally.bad + tally.impossible + tally.unlabelled != tally.rows:
                raise AssertionError("rows are not accounted for")
        except DataError as error:
            seen[type(error).__name__] += 1


def fuzz_files(rng: np.random.Generator, files: int, folder: Path, seen: Counter[str]) -> None:
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


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    rng = np.random.default_rng(seed)
    warnings.simplefilter("ignore")
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        fuzz_library(rng, rows // 3, seen)
        fuzz_programs(rng, rows // 3, Path(name), seen)
        fuzz_lines(rng, rows // 3, Path(name), seen)
        fuzz_files(rng, 2000, Path(name), seen)
    print(f"{rows:,} rows, seed {seed}: " + ", ".join(f"{what} {n:,}" for what, n in sorted(seen.items())))


if __name__ == "__main__":
    main()
