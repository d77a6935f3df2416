"""Features that are missing are filled in before a learner sees them: in first rows, later ones, and questions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ._arrays import Array, is_foreign, to_host
from .checks import Batch
from .errors import InputError
from .labels import lacking
from .online import missing
from .online.answered import Late
from .online.missing import Imputation
from .parameters import Settings

if TYPE_CHECKING:
    from .learner import Learner

L = TypeVar("L", bound="Learner")
# With fewer targets in the sample than this, the prior is that of the kernel.
MIN_TARGETS = 20


def begun(settings: Settings, batch: Batch) -> tuple[Imputation | None, Batch]:
    """Return the imputation by the first rows, None where it is not wanted, and these filled in."""
    if settings.missing != "impute" or is_foreign(batch.X):
        return None, batch
    return missing.begun(batch)


def filled(learner: L, batch: Batch, late: Late | None) -> tuple[L, Batch, Late | None]:
    """Return the learner that has counted what a batch lacks, the batch filled in, and what was answered for it.

    Rows that lack every feature are left out.
    """
    imputation, empty = learner.imputation, batch.empty
    assert imputation is not None
    batch, late = batch.only(~empty), late and late.only(~empty)
    imputation, batch = missing.filled(imputation.emptier(int(empty.sum())), batch)
    assert batch.lacking is not None
    batch = replace(batch, doubt=imputation.doubt(learner.state, batch.X, batch.lacking))
    return replace(learner, imputation=imputation), batch, late


def aligned(learner: L, empty: np.ndarray) -> L:
    """Return the learner whose guard tells of all rows of a batch, `empty` (b,) ones, which it did not see, too."""
    outliers = learner.outliers
    if not empty.any():
        return learner
    refused = np.zeros(empty.size, dtype=bool)
    if not empty.all() and outliers.refused.size:
        refused[~empty] = outliers.refused
    return replace(learner, outliers=replace(outliers, refused=refused))


@dataclass(frozen=True)
class Completed:
    """Rows to predict, X (m, d), filled in.

    Attributes
    ----------
    doubt : (m, q) or None
        The variance that missing features leave; None where none is missing.
    empty : (m,) of bool
        Rows that lack every feature.
    """

    X: Array
    doubt: np.ndarray | None = None
    empty: np.ndarray | None = None


def completed(learner: Learner, X: Array, *, variance: bool) -> Completed:
    """Return the rows X (m, d) filled in; without a `variance`, no doubt is needed, and it is zero."""
    gaps, imputation = lacking(X), learner.imputation
    if gaps is None or imputation is None:
        return Completed(X)
    X = imputation.fill(X)
    doubt = np.zeros((X.shape[0], learner.targets.n_outputs))
    return Completed(
        X, imputation.doubt(learner.state, X, gaps) if variance else doubt, np.asarray(gaps.all(axis=1))
    )


def refuse_gaps(X: Array, what: str) -> None:
    """Raise InputError where a row of X (m, d) lacks a feature: `what` is asked of a function of all features."""
    gaps = lacking(X)
    if gaps is None:
        return
    row, column = np.argwhere(gaps)[0]
    raise InputError(
        f"row {row} of X lacks feature {column} (NaN), and {what} of a function of all features: what is filled in "
        "for `predict` moves with the other features. Fill the row in, or ask `predict` at rows nearby"
    )


def prior(learner: Learner, X: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance (q,) of a new target of which nothing is known, standardised.

    Those of the sample of all rows; without one, those of the kernel at a row of X (m, d).
    """
    targets = to_host(learner.sample.y)
    known = (~np.isnan(targets)).sum(axis=0)
    if known.size and known.min() >= MIN_TARGETS:
        return np.nanmean(targets, axis=0), np.nanvar(targets, axis=0)
    variance = np.abs(to_host(learner.state.kernel.diag(X[:1, :]))) + learner.state.noise
    return np.zeros(learner.targets.n_outputs), variance
