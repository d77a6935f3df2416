"""What the tests of the application share: tables, processes, the content of checkpoints."""

import csv
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from click.testing import CliRunner

from streamgp.app.cli import main
from streamgp.checkpoint import read


def random_rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(n)


def write_csv(path, n=600, seed=0, **lines):
    """Write a CSV and return its inputs and targets; l7="…" replaces line 7."""
    X, y = random_rows(n, seed)
    text = ["a,b,c,y", *(",".join(map(repr, [*map(float, x), float(t)])) for x, t in zip(X, y, strict=True))]
    for name, line in lines.items():
        text[int(name[1:]) - 1] = line
    path.write_text("\n".join(text) + "\n")
    return X, y


def write_formats(folder, X, y):
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t.tsv", index=False, sep="\t")
    frame.to_json(folder / "t.jsonl", orient="records", lines=True, double_precision=15)
    frame.to_parquet(folder / "t.parquet", row_group_size=70)
    return [folder / f"t.{end}" for end in ("csv", "tsv", "jsonl", "parquet")]


def read_rows(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def invoke(*arguments, **more):
    """Run the command within this process; `more` goes to click's runner."""
    return CliRunner().invoke(main, [*map(str, arguments)], **more)


def run(*arguments, **more):
    return invoke("run", *arguments, **more)


def process(*arguments, **more):
    """Start the command as a process of its own; `more` goes to Popen."""
    return subprocess.Popen(
        [sys.executable, "-m", "streamgp", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more,
    )  # fmt: skip


def wait_for_signal_handlers(child):
    """Wait until a process handles SIGTERM, however slow the machine."""
    for _ in range(600):
        caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{child.pid}/status").read_text())
        if int(caught.group(1), 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.1)
    raise AssertionError("the process never installed its handlers")


def state(path):
    """Return what a checkpoint holds, without times and file names."""

    def plain(value):
        if isinstance(value, np.ndarray):
            return (value.dtype.str, value.shape, value.tobytes())
        if isinstance(value, dict):
            return {
                k: plain(v)
                for k, v in value.items()
                if "seconds" not in str(k) and k not in ("history", "files")
            }
        if isinstance(value, tuple | list):
            return [plain(v) for v in value]
        if hasattr(value, "__dataclass_fields__"):
            return plain({k: getattr(value, k) for k in value.__dataclass_fields__ if k != "recent"})
        return repr(value)

    return plain(read(path))
