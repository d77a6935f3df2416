"""Bayesian optimisation of Hartmann's six-dimensional function in batches of 10, beside BoTorch's exact GP.

    python -m experiments.peers.optimisation streamgp|smooth|doubling|exact [--evaluations N] [--seed S] [--keep FILE]

"streamgp" is tuned at every batch, as the exact model is; "smooth" too, with the exact model's family, the squared
exponential; "doubling" when its rows have doubled, as streams are.

Both models take the same acquisition function, qLogExpectedImprovement, optimised one point after another from the same
number of starts, and the same first points. Prints, every 100 evaluations and at the end, the regret and the median
processor time of the last ten suggestions: learning the last batch, with tuning, and finding the next. --keep goes on
where a run was stopped; --first tells what a suggestion costs after many evaluations.
"""

from __future__ import annotations

import pickle
import time
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np

from experiments.common import command

BATCH = 10
OPTIMUM = 3.32237


def learned(name: str, model: Any, X: Any, Y: Any) -> Any:
    """Return the model that has learned all rows; `model` has learned all but the last batch."""
    if name == "exact":
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from gpytorch.mlls import ExactMarginalLogLikelihood

        exact = SingleTaskGP(X, Y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(exact.likelihood, exact))
        return exact
    from streamgp import StreamingGPRegressor
    from streamgp.adapters.botorch import StreamingGPModel

    if model is None:
        tune = "doubling" if name == "doubling" else "continuous"
        family = "squared_exponential" if name == "smooth" else "matern52"
        gp = StreamingGPRegressor(
            family, rank=300, members=("gp",), guard=None, tune=tune, forgetting=1.0, random_state=0
        )
        return StreamingGPModel(gp.fit(X.numpy(), Y[:, 0].numpy()))
    return model.condition_on_observations(X[-BATCH:], Y[-BATCH:])


def suggested(model: Any, best: float, seed: int) -> Any:
    """Return the next batch (BATCH, 6)."""
    import torch
    from botorch.acquisition import qLogExpectedImprovement
    from botorch.optim import optimize_acqf
    from botorch.sampling import SobolQMCNormalSampler

    torch.manual_seed(seed)
    sampler = SobolQMCNormalSampler(torch.Size([32]), seed=seed)
    bounds = torch.stack([torch.zeros(6), torch.ones(6)]).double()
    acquisition = qLogExpectedImprovement(model, best_f=best, sampler=sampler)
    options = {"maxiter": 15}
    found, _ = optimize_acqf(acquisition, bounds, BATCH, 1, 64, options=options, sequential=True)
    return found.detach()


@command(__doc__)
@click.argument("name", type=click.Choice(["streamgp", "smooth", "doubling", "exact"]))
@click.option("--evaluations", default=2000, show_default=True, help="Of the function, in all.")
@click.option("--first", default=30, show_default=True, help="Quasi-random points that come first.")
@click.option(
    "--seed", default=0, show_default=True, help="Of the first points and the acquisition function."
)
@click.option("--minutes", default=1e9, help="Stop after so many, and keep what was found.")
@click.option("--keep", type=click.Path(path_type=Path), help="A file to go on from.")
def main(name: str, evaluations: int, first: int, seed: int, minutes: float, keep: Path | None) -> None:
    """Print the regret and the time of a suggestion."""
    import torch
    from botorch.test_functions import Hartmann

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    function, started = Hartmann(negate=True), time.perf_counter()
    X = torch.quasirandom.SobolEngine(6, scramble=True, seed=seed).draw(first).double()
    Y, model, times = function(X)[:, None].double(), None, []
    if keep and keep.exists():
        X, Y, model, times = pickle.loads(keep.read_bytes())
    if len(X) >= evaluations:
        raise SystemExit(3)
    while len(X) < evaluations and time.perf_counter() - started < 60 * minutes:
        start = time.process_time()
        model = learned(name, model, X, Y)
        new = suggested(model, float(Y.max()), seed + len(X))
        times.append(time.process_time() - start)
        X, Y = torch.cat([X, new]), torch.cat([Y, function(new)[:, None].double()])
        if len(X) % 100 == 0 or len(X) >= evaluations:
            print(
                f"{name}, {len(X)}: regret {OPTIMUM - float(Y.max()):.5f}, {np.median(times[-10:]):.2f} s",
                flush=True,
            )
    if keep:
        keep.write_bytes(pickle.dumps((X, Y, None if name == "exact" else model, times)))


if __name__ == "__main__":
    main()
