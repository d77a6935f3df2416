"""Runs of the library's own methods: times of Tables I and III, and the rows that the paper does not have."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from experiments.common import BATCH
from streamgp import StreamingGPRegressor
from streamgp.datasets import Dataset
from streamgp.errors import NumericalError, StreamGPError, StreamGPWarning
from streamgp.evaluation import prequential, self_training
from streamgp.kernels import DistancePolynomial, SquaredExponential
from streamgp.parameters import used_by

from .factors import Setting, mean_of, stream_of

PROTOCOLS = {"self-training": self_training, "labels known": prequential}
# Start of our tuner: its defaults for a distance kernel, which the prior holds on to.
POLYNOMIAL = (0.1, 1.0, 1.0)


def arguments_of(row: str, *, timed: bool = False) -> dict[str, Any]:
    """Return the arguments of the regressor for a row of Table I, II or III."""
    method, _, kind = row.partition(", ")
    name = method.lower().removesuffix(" (hybrid)")
    given: dict[str, Any] = {"method": name}
    if name == "nrmf":
        given["refactor"] = timed  # from scratch at each batch, as in the paper; the predictions are the same
    if name in ("srmf", "brmf"):
        given["variant"] = "literal" if kind.startswith("as printed") else "projected"
    return given


def table_one(
    data: Dataset,
    *,
    rows: int,
    row: str,
    setting: Setting,
    protocol: str,
    seed: int = 0,
    timed: bool = False,
) -> dict[str, Any]:
    """Return a run of a method with the squared exponential of a setting, nothing tuned."""
    kernel = SquaredExponential(setting.length * data.X.shape[1] ** 0.5)
    given = {"kernel": kernel, "noise": setting.noise, "rank": setting.rank, "tune": "none"}
    given |= {"oversampling": setting.oversampling, "random_state": seed}
    return run(data, rows, protocol, used_by(**arguments_of(row, timed=timed), **given))


def sweep_rgp(
    data: Dataset, *, rows: int, length: float, rank: int, noises: Sequence[float]
) -> dict[str, Any]:
    """Return the mean RMSE of self-training with RGP by noise, at one length-scale and rank."""
    given = {"rows": rows, "row": "RGP", "protocol": "self-training"}
    runs = [table_one(data, setting=Setting(length, noise, rank, 0), **given) for noise in noises]
    return {"RGP": [mean_of(run["rmse"]) for run in runs]}


def polynomial(
    data: Dataset, *, rows: int, row: str, tune: str, protocol: str, seed: int = 0
) -> dict[str, Any]:
    """Return a run of a method with the distance kernel under our tuner (prior, held-out check)."""
    given = arguments_of(row) | {"rank": 50, "tune": tune, "objective": "training_error"}
    kernel = DistancePolynomial(POLYNOMIAL)
    return run(data, rows, protocol, used_by(kernel=kernel, random_state=seed, **given))


def ours(data: Dataset, *, rows: int, protocol: str) -> dict[str, Any]:
    """Return a run of `pivoted`: tuned on the first batch if no other has labels, else with default arguments."""
    given: dict[str, Any] = {"method": "pivoted"}
    if protocol == "self-training":
        given |= {"tune": "initial", "initial_batches": 1}
    return run(data, rows, protocol, given)


def run(data: Dataset, rows: int, protocol: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return RMSE, seconds and tunings of each batch; an error of the method is part of the result."""
    stream = stream_of(data, rows)
    gp = StreamingGPRegressor(**({"random_state": 0} | arguments))
    records, failure = [], None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StreamGPWarning)
        try:
            records += PROTOCOLS[protocol](gp, stream.X, stream.y, BATCH)
        except (StreamGPError, NumericalError) as error:
            failure = f"{error}".splitlines()[0]
    return {
        "rmse": [None if r.rmse is None else float(stream.scale * r.rmse) for r in records],
        "seconds": [r.predict_seconds + r.update_seconds + r.tuning_seconds for r in records],
        "tuning_seconds": [r.tuning_seconds for r in records],
        "tunings": sum(r.tuning is not None for r in records),
        "tunings_taken": sum(r.tuning == "taken" for r in records),
        "failure": failure,
    }
