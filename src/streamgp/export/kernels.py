"""Each kernel of the library as a graph: k(x, Z) for fixed points Z, and k(x, x)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ..errors import ExportError
from ..kernels import (
    BrownianPolynomial,
    Constant,
    Kernel,
    Linear,
    Matern,
    Periodic,
    Product,
    RationalQuadratic,
    Scaled,
    SquaredExponential,
    Sum,
    Trend,
    WeightedSum,
    White,
)
from ..kernels.trend import FARTHEST
from .graph import Node, constant, joined


def against(kernel: Kernel, x: Node, Z: np.ndarray) -> Node:
    """Return k(x, z) for each row z of Z (r, d), a vector of length r or 1."""
    return _way(kernel)[0](kernel, x, Z)


def own(kernel: Kernel, x: Node) -> Node:
    """Return k(x, x), a vector of length 1."""
    if kernel.prior_variance is not None:
        return constant(kernel.prior_variance)
    return _way(kernel)[1](kernel, x)


def trend_features(trend: Trend, x: Node) -> Node:
    """Return the features of a trend times their prior variances; shape (d + 1,)."""
    return joined([constant(1.0), _trend_units(trend, x)]) * trend.coefficients


def _way(kernel: Kernel) -> tuple[Callable[..., Node], Callable[..., Node]]:
    # By the type itself: what a subclass changes is not known here.
    if type(kernel) not in _WAYS:
        names = ", ".join(sorted(kind.__name__ for kind in _WAYS))
        raise ExportError(
            f"the kernel {type(kernel).__name__} cannot be exported; only those of streamgp.kernels can: {names}"
        )
    return _WAYS[type(kernel)]


# Stationary kernels, functions of a squared distance s


def _distance(length_scale: Any, x: Node, Z: np.ndarray) -> Node:
    origin: np.ndarray = Z.mean(axis=0)
    scale: np.ndarray = 1.0 / np.broadcast_to(np.asarray(length_scale), Z.shape[1])
    return ((x - origin) * scale).distance((Z - origin) * scale)


def _squared_exponential(kernel: SquaredExponential, x: Node, Z: np.ndarray) -> Node:
    return (_distance(kernel.length_scale, x, Z) * -0.5).apply("exp")


def _matern(kernel: Matern, x: Node, Z: np.ndarray) -> Node:
    r = _distance(kernel.length_scale, x, Z).apply("sqrt") * math.sqrt(2 * kernel.nu)
    falling = (r * -1.0).apply("exp")
    if kernel.nu == 0.5:
        return falling
    polynomial = r + 1.0 if kernel.nu == 1.5 else r + 1.0 + r * r * (1.0 / 3.0)
    return polynomial * falling


def _rational_quadratic(kernel: RationalQuadratic, x: Node, Z: np.ndarray) -> Node:
    s, alpha = _distance(kernel.length_scale, x, Z), float(kernel.alpha)
    return ((s * (0.5 / alpha)).apply("log1p") * -alpha).apply("exp")


def _periodic(kernel: Periodic, x: Node, Z: np.ndarray) -> Node:
    period, length = (
        np.broadcast_to(np.asarray(v), Z.shape[1]) for v in (kernel.period, kernel.length_scale)
    )
    # Angles from a point among Z, so that few digits are lost where x is many periods from zero.
    origin = Z.mean(axis=0)
    angles, angle = (Z - origin) * (2 * math.pi / period), (x - origin) * (2 * math.pi / period)
    circle = joined([angle.apply("cos") * (1.0 / length), angle.apply("sin") * (1.0 / length)])
    points = np.hstack([np.cos(angles) / length, np.sin(angles) / length])
    return (circle.distance(points) * -0.5).apply("exp")


# Kernels that are not stationary


def _linear(kernel: Linear, x: Node, Z: np.ndarray) -> Node:
    return x.dot(Z / np.asarray(kernel.length_scale) ** 2)


def _linear_own(kernel: Linear, x: Node) -> Node:
    return (x * x * np.broadcast_to(np.asarray(kernel.length_scale) ** -2.0, (x.size,))).sum()


def _trend_units(trend: Trend, x: Node) -> Node:
    return ((x - np.array(trend.origin)) * (1.0 / np.array(trend.unit))).clipped(-FARTHEST, FARTHEST)


def _trend(kernel: Trend, x: Node, Z: np.ndarray) -> Node:
    return trend_features(kernel, x).dot(np.asarray(kernel.basis(Z)))


def _trend_own(kernel: Trend, x: Node) -> Node:
    t = joined([constant(1.0), _trend_units(kernel, x)])
    return (t * t * kernel.coefficients).sum()


def _powers(weights: Any, base: Node) -> Node:
    out = base * float(weights[-1])
    for weight in weights[-2:0:-1]:
        out = (out + float(weight)) * base
    return out


def _norm(kernel: BrownianPolynomial, x: Node) -> Node:
    apart = x if kernel.origin is None else x - np.array(kernel.origin)
    return (apart * apart).sum().apply("sqrt")


def _brownian(kernel: BrownianPolynomial, x: Node, Z: np.ndarray) -> Node:
    norms = np.sqrt(((Z - (0.0 if kernel.origin is None else np.array(kernel.origin))) ** 2).sum(axis=1))
    return _powers(kernel.weights, _norm(kernel, x) - _distance(1.0, x, Z).apply("sqrt") + norms)


def _brownian_own(kernel: BrownianPolynomial, x: Node) -> Node:
    return _powers(kernel.weights, _norm(kernel, x) * 2.0)


# Kernels made from kernels


def _add(nodes: list[Node]) -> Node:
    return reduce(lambda total, node: total + node, nodes)


def _multiply(nodes: list[Node]) -> Node:
    return reduce(lambda total, node: total * node, nodes)


def _weighted(kernel: WeightedSum) -> list[tuple[float, Kernel]]:
    return [(w, part) for w, part in zip(kernel.weights, kernel.kernels, strict=True) if w]


_WAYS: dict[type, tuple[Callable[..., Node], Callable[..., Node]]] = {
    SquaredExponential: (_squared_exponential, own),
    Matern: (_matern, own),
    RationalQuadratic: (_rational_quadratic, own),
    Periodic: (_periodic, own),
    White: (lambda k, x, Z: constant(0.0), own),
    Constant: (lambda k, x, Z: constant(k.value), lambda k, x: constant(k.value)),
    Linear: (_linear, _linear_own),
    Trend: (_trend, _trend_own),
    BrownianPolynomial: (_brownian, _brownian_own),
    Scaled: (lambda k, x, Z: against(k.kernel, x, Z) * k.factor, lambda k, x: own(k.kernel, x) * k.factor),
    Sum: (
        lambda k, x, Z: _add([against(part, x, Z) for part in k.kernels]),
        lambda k, x: _add([own(part, x) for part in k.kernels]),
    ),
    Product: (
        lambda k, x, Z: _multiply([against(part, x, Z) for part in k.kernels]),
        lambda k, x: _multiply([own(part, x) for part in k.kernels]),
    ),
    WeightedSum: (
        lambda k, x, Z: _add([against(part, x, Z) * w for w, part in _weighted(k)]),
        lambda k, x: _add([own(part, x) * w for w, part in _weighted(k)]),
    ),
}
