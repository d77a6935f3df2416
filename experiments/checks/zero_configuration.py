"""Accuracy of StreamingGPRegressor() on raw, unscaled data, nothing set but random_state.

    python -m experiments.checks.zero_configuration [SEEDS] [SET,SET,...] [NAME=VALUE ...]

Batches of 100 after a first one of 500; RMSE and NLPD in units of the target's standard deviation in the first 500
rows; coverage of the 90 % intervals after the first 1,000 rows; seconds spent tuning. Medians over SEEDS seeds (default
5), for each of the sets (default: sarcos_test, pol, protein, elevators, abalone, kin40k; of pol and protein 6,000
rows). NAME=VALUE sets an argument of the regressor, for example kernel="'dictionary'" or rank=300.
"""

import ast
from typing import NamedTuple

import click
import numpy as np

from experiments.common import FIRST, command, data_folder, load, pool_records
from streamgp import StreamingGPRegressor
from streamgp.evaluation import prequential

# RMSE to reach.
GOALS = {
    "sarcos_test": 0.185,
    "pol": 0.135,
    "protein": 0.700,
    "elevators": 0.377,
    "abalone": 0.514,
    "kin40k": 0.240,
}
# Rows of these sets that are used, in the order of their files, which is random already.
ROWS = {"pol": 6000, "protein": 6000}


def stream(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows X (n, d), y (n,) of a set, in raw units."""
    if name not in ROWS:
        return load(name)
    with np.load(data_folder() / f"{name}.npz") as file:
        rows = slice(ROWS[name])
        return file["X"][rows].astype(float), file["y"][rows].ravel().astype(float)


class Outcome(NamedTuple):
    """Scores of a stream, seconds of all its tunings, and seconds of all else."""

    rmse: float
    nlpd: float
    coverage: float
    tuning_seconds: float
    other_seconds: float


def run(name: str, seed: int, **arguments: object) -> Outcome:
    """Return what a regressor with default settings, but for `arguments`, does on a stream."""
    X, y = stream(name)
    scale = y[:FIRST].std()
    gp = StreamingGPRegressor(random_state=seed, **arguments)
    records = list(prequential(gp, X, y, first=FIRST))
    pooled = pool_records(records)
    return Outcome(
        float(pooled.rmse / scale),
        float(pooled.nlpd - np.log(scale)),
        pool_records(records, after=1000).coverage,
        gp.tuning_seconds_,
        float(sum(r.predict_seconds + r.update_seconds for r in records[1:])),
    )


def _value(text: str) -> tuple[str, object]:
    """Return the name and value of NAME=VALUE; raise a usage error where it is not a Python literal."""
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError) as error:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE with a Python literal") from error


@command(__doc__)
@click.argument("seeds", default=5, type=click.IntRange(1))
@click.argument("sets", default=",".join(GOALS))
@click.argument("arguments", nargs=-1)
def main(seeds: int, sets: str, arguments: tuple[str, ...]) -> None:
    """Print a row for each set."""
    given = dict(_value(text) for text in arguments)
    for name in sets.split(","):
        outcomes = [run(name, seed, **given) for seed in range(seeds)]
        median = Outcome(*np.median(outcomes, axis=0))
        print(
            f"{name:12} RMSE {median.rmse:.4f} (goal {GOALS.get(name)})  NLPD {median.nlpd:.3f}  90 % intervals "
            f"cover {median.coverage:.1%}  tuning {median.tuning_seconds:.2f} s, all else "
            f"{median.other_seconds:.2f} s; RMSE of each seed " + " ".join(f"{o.rmse:.3f}" for o in outcomes),
            flush=True,
        )


if __name__ == "__main__":
    main()
