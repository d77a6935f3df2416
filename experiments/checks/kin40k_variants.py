"""Algorithm 4 as printed against its projected variant: kin40k, 10,000 rows, labels known.

    python -m experiments.checks.kin40k_variants

Prints the RMSE and the number of negative variances of each variant at rank 60 and 200.
"""

import warnings

from experiments.common import FIRST, command, hyperparameters, pool_records, standardised
from streamgp import StreamingGPRegressor
from streamgp.errors import NegativeVarianceWarning
from streamgp.evaluation import prequential


@command(__doc__)
def main() -> None:
    """Print error and negative variances by variant and rank."""
    X, y = standardised("kin40k")
    given = hyperparameters("kin40k")
    print(f"{'variant':10} {'rank':>4} {'RMSE':>10} {'negative variances':>20}")
    for variant, rank in (("projected", 60), ("projected", 200), ("literal", 60), ("literal", 200)):
        gp = StreamingGPRegressor(
            given.kernel,
            tune="none",
            noise=given.noise,
            method="srmf",
            rank=rank,
            variant=variant,
            random_state=0,
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NegativeVarianceWarning)
            rmse = pool_records(list(prequential(gp, X, y, first=FIRST))).rmse
        negative = sum(
            int(str(w.message).split()[0]) for w in caught if w.category is NegativeVarianceWarning
        )
        print(f"{variant:10} {rank:4} {rmse:10.4g} {negative:10} of {len(y) - FIRST}", flush=True)


if __name__ == "__main__":
    main()
