"""What neighbours among the stored rows give on kin40k, hyperparameters frozen: error by rows stored, and its price.

    python -m experiments.checks.stored_rows [ROWS] [STORE,STORE,...] [NEIGHBOURS,NEIGHBOURS,...]

The hyperparameters of the peers' benchmark, rank 500, batches of 100 after a first one of 500; ROWS (default 10,000) of
the 40,000 rows are predicted and learned. A line for each number of stored rows (0: the inducing points alone) and
of neighbours: RMSE and NLPD of all rows and of the last 1,000, on the standardised target, and seconds.
"""

from __future__ import annotations

import click
import numpy as np

from experiments.common import (
    FIRST,
    command,
    data_folder,
    hyperparameters,
    pool_records,
    standardise,
)
from streamgp import StreamingGPRegressor
from streamgp.evaluation import Record, prequential

NAME = "kin40k"


def stream(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first `rows` of the set in the order of the benchmark, standardised by the first 500."""
    with np.load(data_folder() / f"{NAME}.npz") as file:
        at = np.random.default_rng(0).permutation(len(file["X"]))[:rows]
        return standardise(file["X"][at].astype(float), file["y"].ravel()[at].astype(float))[:2]


def run(rows: int, store: int, neighbours: int, rank: int = 500) -> list[Record]:
    """Return the records of a stream with so many stored rows and neighbours; 0 of them: inducing points alone."""
    X, y = stream(rows)
    given = hyperparameters(NAME)
    more = {"store": store, "neighbours": neighbours} if store and neighbours else {}
    gp = StreamingGPRegressor(
        given.kernel,
        tune="none",
        noise=given.noise,
        rank=rank,
        random_state=0,
        members=("gp", "neighbours") if more else ("gp",),
        **more,
    )
    return list(prequential(gp, X, y, first=FIRST))


def _counts(_: object, __: object, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of whole numbers such as 0,20000") from error


@command(__doc__)
@click.argument("rows", default=10_000, type=click.IntRange(1_500, 40_000))
@click.argument("stores", default="0,5000,20000", callback=_counts)
@click.argument("neighbours", default="32", callback=_counts)
def main(rows: int, stores: list[int], neighbours: list[int]) -> None:
    """Print a line for each number of stored rows and of neighbours."""
    for store in stores:
        for k in neighbours if store else [0]:
            records = run(rows, store, k)
            every, last = pool_records(records), pool_records(records, after=rows - 1000)
            seconds = sum(r.predict_seconds + r.update_seconds for r in records)
            print(
                f"store {store:6} neighbours {k:4}  {every.rmse:.4f} / {every.nlpd:.3f}  last 1,000 "
                f"{last.rmse:.4f} / {last.nlpd:.3f}  covered {every.coverage:.1%}  {seconds:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
