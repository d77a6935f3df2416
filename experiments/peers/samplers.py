"""Optuna's samplers on two functions: Hartmann's of six numbers, and one of a category, a whole number and a logarithm.

    python -m experiments.peers.samplers [SAMPLER ...] [--trials N] [--seed S]

Prints what the best trial lacks to the optimum after 25, 50, 100 trials and at the end. Needs optuna.
"""

from __future__ import annotations

import warnings
from typing import Any

import click
import numpy as np

from experiments.common import command, parts_argument

OPTIMUM = 3.32237
WIDTHS = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
CENTRES = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)
HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])


def hartmann(trial: Any) -> float:
    """Return the regret at six numbers."""
    x = np.array([trial.suggest_float(f"x{i}", 0, 1) for i in range(6)])
    return OPTIMUM - float(HEIGHTS @ np.exp(-(WIDTHS * (x - CENTRES) ** 2).sum(axis=1)))


def mixed(trial: Any) -> float:
    """Return the regret at a choice, a whole number and a rate."""
    choice = trial.suggest_categorical("c", ["a", "b", "c"])
    n, rate = trial.suggest_int("n", 1, 20), trial.suggest_float("lr", 1e-5, 1, log=True)
    return {"a": 0.0, "b": 1.0, "c": 0.5}[choice] + 0.01 * (n - 13) ** 2 + (float(np.log10(rate)) + 2.5) ** 2


def sampler_of(name: str, seed: int) -> Any:
    """Return a sampler of Optuna's, or ours."""
    import optuna

    from streamgp.adapters.optuna import StreamingGPSampler

    return {"streamgp": StreamingGPSampler, "tpe": optuna.samplers.TPESampler}[name](seed=seed)


@command(__doc__)
@parts_argument(["streamgp", "tpe"])
@click.option("--trials", default=100, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(parts: tuple[str, ...], trials: int, seed: int) -> None:
    """Print the regrets."""
    import optuna

    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for objective in (hartmann, mixed):
        for name in parts:
            study = optuna.create_study(sampler=sampler_of(name, seed))
            study.optimize(objective, n_trials=trials)
            best = np.minimum.accumulate([trial.value for trial in study.trials])
            told = ", ".join(f"{k}: {best[k - 1]:.4f}" for k in sorted({25, 50, 100, trials}) if k <= trials)
            print(f"{objective.__name__}, seed {seed}, {name}: {told}", flush=True)


if __name__ == "__main__":
    main()
