"""The answers of a learner at one row as a graph: what `predict` computes, as far as it does not need stored rows.

All but one part is exact: the Gaussian process with its trend, the ridge regressions, the level, the calibration and
the local scale of spreads. What neighbours tell needs all stored rows; in its place stands the Gaussian process alone,
as in the mixture itself while neighbours gain nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from .._arrays import to_host
from ..answers import interval_ends, scores_of
from ..kernels import Kernel
from ..learner import Learner
from ..methods.frozen import Frozen, freeze
from ..online.exponential import NEIGHBOURS
from ..online.local import FrozenScale
from ..online.members import FARTHEST, Affine
from ..online.mixture import NOTHING, Mixture
from .graph import Node, constant, joined
from .kernels import against, own, trend_features

# A prior variance of zero counts as this, so that nothing is divided by zero in float32.
SMALL = 1e-30


@dataclass(frozen=True)
class Graph:
    """The answers at a row, in the units of the targets.

    Attributes
    ----------
    mean, std, lower, upper : Node, size q
        Of a new observation, calibrated; the ends of the central interval of `probability`.
    """

    mean: Node
    std: Node
    lower: Node
    upper: Node
    probability: float


def graph_of(learner: Learner, probability: float) -> Graph:
    """Return the answers of a learner, with intervals of that probability."""
    x = Node("input", learner.columns.n_features)
    mean, variance = _standardised(learner, x)
    scale, offset = (
        np.asarray(to_host(v), dtype=np.float64) for v in (learner.targets.scale, learner.targets.offset)
    )
    mean = mean + (x * 0.0).sum()  # NaN where a feature is not a finite number
    scale_of_rows, honest = _scales(learner, x, mean)
    below, above = interval_ends(learner, probability, calibrated=True)
    mean, spread = mean * scale + offset, variance.apply("sqrt") * scale
    unit = spread if scale_of_rows is None else spread * scale_of_rows
    return Graph(mean, spread * honest, mean - unit * below, mean + unit * above, probability)


def left_out(learner: Learner) -> list[str]:
    """Return what an exported model leaves out of what `predict` answers, in words."""
    mixture, parts = learner.mixture, []
    if learner.settings.mean_function is not None:
        parts.append("the mean function (add what it says to mean, lower and upper)")
    if mixture is None or NEIGHBOURS not in mixture.names or not mixture.asks:
        return parts
    weight = float(mixture.weights[mixture.names.index(NEIGHBOURS)].max())
    gain = max(float(mixture.gain[0].max()), 0.0)
    return [
        *parts,
        f"what neighbours tell (weight {weight:.2f}; they lowered squared errors by {gain:.0%} lately)",
    ]


def _scales(learner: Learner, x: Node, mean: Node) -> tuple[Node | None, Node | np.ndarray]:
    """Return the local scale (q,) of intervals, None where it is 1, and what standard deviations are multiplied by."""
    scores, trusting = scores_of(learner, mixed=True), learner.mixture is None
    local, q = scores.local, learner.targets.n_outputs
    if not local.chosen.any():
        return None, local.honest(None, trusting=trusting)[0]
    each = [
        _scale(said, learner.state.kernel, x, mean, j) for j, said in enumerate(local.frozen(scores.sizes))
    ]
    scale = joined(each)
    # Of the form √(a + bλ²).
    least, most = (local.honest(np.full((1, q), v), trusting=trusting)[0] ** 2 for v in (0.0, 1.0))
    return scale, (scale * scale * (most - least) + least).apply("sqrt")


def _scale(said: FrozenScale | None, kernel: Kernel, x: Node, mean: Node, j: int) -> Node:
    """Return the local scale of output j, (1,)."""
    if said is None:
        return constant(1.0)
    if said.power is not None:
        near = _correlation(kernel, x, said.X)
        for _ in range(said.power.bit_length() - 1):
            near = near * near
    elif said.width > 0:
        own_mean = mean.dot(np.eye(mean.size)[[j]]) * (1.0 / said.width)
        near = (own_mean.distance(said.means[:, None] / said.width) * -0.5).apply("exp")
    else:
        near = constant(np.ones(said.means.size))
    mass = near.dot(said.mass[None, :]) + said.prior
    scale = (near.dot(said.first[None, :]) + said.prior) / mass
    return scale if said.second is None else scale * (near.dot(said.second[None, :]) + said.prior) / mass


def _correlation(kernel: Kernel, x: Node, Z: np.ndarray) -> Node:
    """Return the correlation with the points Z (l, d), (l,); not below zero."""
    prior = np.asarray(kernel.diag(Z), dtype=np.float64)
    scale = np.sqrt(np.where(prior > 0, prior, 1.0))
    at_x = own(kernel, x).clipped(SMALL, np.inf).apply("sqrt")
    return (against(kernel, x, Z) * (1.0 / scale) / at_x).clipped(0.0, 1.0)


def _standardised(learner: Learner, x: Node) -> tuple[Node, Node]:
    """Return mean and variance of a new observation in the units of the model, (q,) each."""
    parts = [_gaussian(part, x, learner.targets.n_outputs) for part in freeze(learner.state)]
    mean, latent = (reduce(Node.__add__, each) for each in zip(*parts, strict=True))
    variance = latent.clipped(0.0, np.inf) + learner.state.noise
    return (mean, variance) if learner.mixture is None else _mixed(learner.mixture, x, mean, variance)


def _gaussian(part: Frozen, x: Node, n_outputs: int) -> tuple[Node, Node]:
    """Return mean and latent variance of some outputs, (q,) each, zero for the other outputs."""
    features, prior = [], []
    if part.trend is not None:
        features.append(trend_features(part.trend, x))
        prior.append(own(part.trend, x))
    if part.kernel is not None:
        # A kernel that is constant has one value for all points.
        features.append(against(part.kernel, x, part.Z) + np.zeros(len(part.Z)))
        prior.append(own(part.kernel, x))
    place = np.eye(n_outputs)[:, list(part.outputs)]
    if not sum(node.size for node in features):
        return constant(np.zeros(n_outputs)), reduce(Node.__add__, prior) * place.sum(axis=1)
    u = joined(features)
    explained = [u.dot(root) for root in part.roots]
    each = joined([(v * v).sum() for v in explained])
    of_group = np.eye(len(part.roots))[list(part.groups)]
    latent = reduce(Node.__add__, prior) * place.sum(axis=1) - each.dot(place @ of_group)
    return u.dot(place @ part.weights.T), latent


def _mixed(mixture: Mixture, x: Node, mean: Node, variance: Node) -> tuple[Node, Node]:
    """Return mean and variance of the mixture, (q,) each; see `Mixture.predict`."""
    n, q = mixture.n_gaussian, mixture.by_error.shape[1]
    by_error, by_density, spreads = mixture.weights, np.exp(mixture.by_density), mixture.spreads
    others = [_affine(member.frozen(x.size), x) for member in mixture.members]
    means = [mean, *others]
    own_weights = np.vstack([by_error[:n].sum(axis=0), by_error[n:]])
    mixed = reduce(Node.__add__, [m * w for m, w in zip(means, own_weights, strict=True)])
    total = variance * (by_density * spreads)[:n].sum(axis=0) + (by_density * spreads)[n:].sum(axis=0)
    if others:
        density = np.vstack([by_density[:n].sum(axis=0), by_density[n:]])
        apart = [m - mixed for m in means]
        total = total + reduce(Node.__add__, [a * a * w for a, w in zip(apart, density, strict=True)])
    return mixed, total.clipped(np.full(q, NOTHING**2), np.inf)


def _affine(said: Affine, x: Node) -> Node:
    if not said.slopes.any():
        return constant(said.level)
    t = ((x - said.centre) * said.scale).clipped(-FARTHEST, FARTHEST)
    return t.dot(said.slopes.T).clipped(-said.reach, said.reach) + said.level
