"""Damaged lines through `streamgp run`: it ends well, and what it learns are the undamaged rows, each once, in order.

    python -m experiments.checks.fuzz_lines [LINES] [SEED]

100,000 lines and seed 0 unless others are given. Which lines are rows is decided by a regular expression here, not by
the readers. Prints what happened how often; an AssertionError is a finding.
"""

from __future__ import annotations

import math
import re
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import numpy as np
from click.testing import CliRunner

from experiments.common import command
from streamgp import StreamingGPRegressor
from streamgp.app.cli import main as streamgp_command

ODD_CELLS = [
    "", " ", "x", "1e", "0x1p3", "1_000", "١٢", "nan", "-inf", "1e400", '"', '"a""b"', '"1', "\x00", "\ufeff1", "None",
    "1,5", "1.5.5", "é", "--3", "1e5e5", "NA", "null", "#REF!", "2026-01-01", "TRUE", "-200", "12,345.6", "\t", "∞",
]  # fmt: skip
MISSING = {"", "na", "nan", "null", "-200"}
# What a cell must look like to be a number, by its decimal sign; quotes around a cell are taken off first.
NUMBER = {
    sign: re.compile(rf"[+-]?(\d+([{sign}]\d*)?|[{sign}]\d+)([eE][+-]?\d+)?", re.ASCII) for sign in ".,"
}


@dataclass(frozen=True)
class Dialect:
    """How a file is written: delimiter, decimal sign, line end, and whether weights stand in a column `w`."""

    delimiter: str
    decimal: str
    end: str
    weighted: bool

    @property
    def columns(self) -> list[str]:
        """Names in the first line."""
        return ["when", "a", "b", *(["w"] if self.weighted else []), "y"]

    @property
    def options(self) -> list[str]:
        """The options with which the file is read."""
        more = ["--weight", "w"] if self.weighted else []
        return ["--target", "y", "--ignore", "when", "--missing", "-200", "--decimal", self.decimal, *more]

    def line(self, cells: list[str]) -> str:
        """Return a line of these cells."""
        return self.delimiter.join(cells)

    def row(self, line: bytes) -> tuple[float, ...] | None:
        """Return a, b, y and the weight of a line that is a row to learn, None of any other."""
        text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
        cells = split(text, self.delimiter)
        if cells is None or len(cells) != len(self.columns):
            return None
        values = [self.number(cell) for cell in cells[1:]]
        if None in values:
            return None
        a, b, *w, y = values
        weight = w[0] if w else 1.0
        # A row without a label or a feature is not learned, one without a weight is bad.
        if math.isnan(y) or (math.isnan(a) and math.isnan(b)) or not 1e-30 <= weight <= 1e30:
            return None
        return a, b, y, weight

    def number(self, cell: str) -> float | None:
        """Return the number in a cell, NaN if it is missing, None if it is none."""
        cell = cell.strip()
        if cell.lower() in MISSING:
            return math.nan
        if not NUMBER[self.decimal].fullmatch(cell):
            return None
        value = float(cell.replace(self.decimal, "."))
        return math.nan if value == -200 else value if math.isfinite(value) else None


def split(text: str, delimiter: str) -> list[str] | None:
    """Return the cells of a line; None where quotes are not as CSV has them."""
    if '"' not in text:
        return text.split(delimiter)
    cell = re.compile(
        rf'(?:"((?:[^"]|"")*)"|([^"{delimiter}][^{delimiter}]*|))(?:({delimiter})|$)', re.DOTALL
    )
    cells, at = [], 0
    while True:
        found = cell.match(text, at)
        if not found:
            return None
        quoted, bare, more = found.groups()
        cells.append(bare if quoted is None else quoted.replace('""', '"'))
        at = found.end()
        if not more:
            return cells


def damaged(rng: np.random.Generator, cells: list[str], dialect: Dialect) -> bytes:
    """Return a line with a damage of some kind."""
    kind, at = int(rng.integers(14)), int(rng.integers(len(cells)))
    cells = list(cells)
    if kind <= 3:
        cells[at] = str(rng.choice(ODD_CELLS))
    elif kind == 4:
        del cells[at]
    elif kind == 5:
        cells.insert(at, str(rng.choice([*ODD_CELLS, "1"])))
    elif kind == 6:
        cells = [str(v) for v in rng.choice(ODD_CELLS, int(rng.integers(0, 9)))]
    elif kind == 7:
        cells = dialect.columns
    elif kind == 8:
        cells[at] = f'"{cells[at]}"'
    elif kind == 9:
        cells[at] = "9" * int(rng.choice([400, 70_000]))
    text = bytearray(dialect.line(cells).encode("utf-8", "surrogateescape"))
    if kind == 10:  # cut short, as a full disk leaves it
        text = text[: int(rng.integers(len(text)))]
    elif kind == 11:  # written over, or torn by another writer
        text += text[int(rng.integers(len(text))) :]
    elif kind == 12:
        for _ in range(int(rng.integers(1, 4))):
            text[int(rng.integers(len(text)))] = int(rng.integers(256))
    elif kind == 13:
        text = bytearray(dialect.delimiter.encode() * int(rng.integers(9)))
    return bytes(text)


def written(rng: np.random.Generator, n: int, dialect: Dialect) -> bytes:
    """Return a file of n lines, a third of which may be damaged."""
    share, lines = rng.choice([0.0, 0.05, 0.3]), [dialect.line(dialect.columns).encode()]
    for i in range(n):
        a, b, noise = rng.standard_normal(3)
        numbers = [a, b, *([rng.choice([0.5, 4.0])] if dialect.weighted else []), a - b**2 + 0.1 * noise]
        cells = [f"line {i}", *(f"{float(v):.9g}".replace(".", dialect.decimal) for v in numbers)]
        lines.append(damaged(rng, cells, dialect) if rng.random() < share else dialect.line(cells).encode())
    return (b"\xef\xbb\xbf" if rng.random() < 0.2 else b"") + dialect.end.encode().join(lines)


class Recording(StreamingGPRegressor):
    """A regressor that notes what it has learned."""

    noted: list[tuple[float, ...]]

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, *, ids: Any = None) -> Recording:
        """Learn rows and note them."""
        super().partial_fit(X, y, sample_weight, ids=ids)
        weights = np.ones(len(y)) if sample_weight is None else sample_weight
        self.noted += [tuple(map(float, (*x, label, w))) for x, label, w in zip(X, y, weights, strict=True)]
        return self


def same(mine: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Return whether two rows have the same numbers, or lack the same ones."""
    return np.array_equal(mine, other, equal_nan=True)


def is_moderate(row: tuple[float, ...]) -> bool:
    """Return whether no number of a row is beyond those of which squares can be taken."""
    return all(math.isnan(v) or abs(v) < 1e100 for v in row)


def check(learned: list[tuple[float, ...]], data: bytes, dialect: Dialect) -> None:
    """Raise AssertionError unless the rows learned are those of a file, each once, in order."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")[1:]
    rows = [(line, row) for line in lines if (row := dialect.row(line)) is not None]
    at = 0
    for row in learned:
        while at < len(rows) and not same(rows[at][1], row):
            if is_moderate(rows[at][1]):
                raise AssertionError(f"{rows[at][0][:200]!r} was not learned ({dialect}); next was {row}")
            at += 1
        if at == len(rows):
            raise AssertionError(f"{row} was learned and is no row of the file ({dialect})")
        at += 1
    left = [line for line, row in rows[at:] if is_moderate(row)]
    if left:
        raise AssertionError(f"{left[0][:200]!r} was not learned ({dialect})")


def fuzz(rng: np.random.Generator, lines: int, folder: Path) -> Counter[str]:
    """Run files of damaged lines; return what happened how often."""
    seen: Counter[str] = Counter()
    while seen["lines"] < lines:
        delimiter, decimal = [(",", "."), (";", "."), (";", ","), ("\t", ".")][rng.integers(4)]
        dialect = Dialect(delimiter, decimal, str(rng.choice(["\n", "\r\n"])), bool(rng.random() < 0.3))
        n = int(rng.integers(1, 700))
        path, gp = folder / "t.csv", Recording(rank=8, random_state=0, guard=None, tune="none", neighbours=0)
        gp.noted = []
        path.write_bytes(data := written(rng, n, dialect))
        batch, how = str(rng.choice([7, 50, 200])), str(rng.choice(["skip", "quarantine"]))
        files = ["--output", str(folder / "o.csv"), "--keep", "when", "--on-error", how]
        files += ["--quarantine", str(folder / "q.jsonl")] if how == "quarantine" else []
        with patch("streamgp.app.cli.resume.new_regressor", lambda options, gp=gp: gp):
            outcome = CliRunner().invoke(
                streamgp_command, ["run", str(path), *dialect.options, *files, "--batch", batch]
            )
        if outcome.exit_code == 1 and "rows could be used" in outcome.output:
            seen["files without a row"] += 1
        elif outcome.exit_code != 0:
            (folder / "found.csv").write_bytes(data)
            raise AssertionError(f"exit {outcome.exit_code}: {outcome.output[-2000:]}") from outcome.exception
        check(gp.noted, data, dialect)
        seen.update({"lines": n, "files": 1, "learned": len(gp.noted)})
    return seen


@command(__doc__)
@click.argument("lines", default=100_000, type=click.IntRange(1))
@click.argument("seed", default=0, type=click.IntRange(0))
def main(lines: int, seed: int) -> None:
    """Run and print the counts."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        seen = fuzz(np.random.default_rng(seed), lines, Path(folder))
    print(f"seed {seed}: " + ", ".join(f"{what} {n:,}" for what, n in sorted(seen.items())))


if __name__ == "__main__":
    main()
