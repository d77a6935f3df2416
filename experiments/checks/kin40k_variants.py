"""Algorithm 4 as printed against its projection: kin40k, 10,000 rows, labels known.

python -m experiments.checks.kin40k_variants
"""

import warnings

import numpy as np

from experiments.common import hyperparameters, standardised
from streamgp import StreamingGPRegressor
from streamgp.errors import NegativeVarianceWarning
from streamgp.evaluation import prequential


def main() -> None:
    X, y = standardised("kin40k")
    kernel, noise = hyperparameters("kin40k")
    print(f"{'variant':10} {'rank':>4} {'RMSE':>10} {'negative variances':>20}")
    for variant, rank in (("projected", 60), ("projected", 200), ("literal", 60), ("literal", 200)):
        gp = StreamingGPRegressor(
            kernel, tune="none", noise=noise, method="srmf", rank=rank, variant=variant, random_state=0
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NegativeVarianceWarning)
            records = [r for r in prequential(gp, X, y, first=500) if r.rmse is not None]
        negative = sum(
            int(str(w.message).split()[0]) for w in caught if w.category is NegativeVarianceWarning
        )
        rmse = np.sqrt(np.mean([r.rmse**2 for r in records]))
        print(f"{variant:10} {rank:4} {rmse:10.4g} {negative:10} of {len(y) - 500}", flush=True)


if __name__ == "__main__":
    main()
