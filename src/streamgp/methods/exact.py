"""`nrmf`: the exact Gaussian process, by a Cholesky factor that grows by blocks; O(n² b) a batch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

from .._arrays import (
    Array,
    cholesky,
    double,
    eigh,
    eye,
    finite,
    halves,
    in_parallel,
    index,
    namespace,
    slices,
    solve_lower,
    zeros,
)
from ..errors import NumericalError
from ..gp.posterior import LeftOut, log_density
from ..kernels import Kernel
from .base import Prediction, Recent, State, last_left_out

# Rows of a panel. Large enough for full-speed products, small enough that rewriting the last,
# unfinished panel costs little beside the solve against all the others.
PANEL_ROWS = 512
# For an indefinite kernel: the largest ratio of what is subtracted from the kernel to the kernel itself; a ratio of 100
# costs two digits.
GROWTH = 1e2


@dataclass(frozen=True)
class Panel:
    """Some rows [left, G] of the factor L of K + σ²I = L D Lᵀ; G is their own square block.

    Attributes
    ----------
    left : (p, a)
        The part that belongs to the a rows before.
    inverse : (p, p)
        G⁻¹. G is lower triangular for a positive definite matrix; for an indefinite one it is any root.
    signs : (p,)
        The diagonal of D, ±1.
    log_det : float
        log |det G D Gᵀ|.
    """

    left: Array
    inverse: Array
    signs: Array
    log_det: float

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.inverse.shape[0])


def _root(schur: Array, noise: float, definite: bool) -> tuple[Array, Array, float]:
    """Return G⁻¹, D and log |det| of a Schur complement G D Gᵀ (p, p)."""
    xp = namespace(schur)
    if definite:
        G = cholesky(schur, f"the kernel matrix plus noise={noise:g}")
        inverse = solve_lower(G, eye(schur.shape[0], schur))
        return inverse, xp.ones_like(schur[:, 0]), 2.0 * float(xp.sum(xp.log(xp.linalg.diagonal(G))))
    values, V = eigh(schur, "the kernel matrix")
    if bool(xp.any(values == 0)):
        raise NumericalError("the indefinite kernel matrix plus noise is singular; use another noise")
    inverse = xp.matrix_transpose(V / xp.sqrt(xp.abs(values))[None, :])
    return inverse, xp.sign(values), float(xp.sum(xp.log(xp.abs(values))))


def _join(first: Panel, second: Panel) -> Panel:
    """Return one panel for two that follow each other."""
    xp, a = namespace(first.left), first.left.shape[1]
    corner = -1.0 * (second.inverse @ (second.left[:, a:] @ first.inverse))
    top = xp.concat([first.inverse, zeros((first.size, second.size), first.inverse)], axis=1)
    return Panel(
        xp.concat([first.left, second.left[:, :a]], axis=0),
        xp.concat([top, xp.concat([corner, second.inverse], axis=1)], axis=0),
        xp.concat([first.signs, second.signs]),
        first.log_det + second.log_det,
    )


@dataclass(frozen=True)
class ExactState(State):
    """The posterior given every row, with no approximation; in double precision whatever X comes in.

    Attributes
    ----------
    X : (n, d), y : (n, q)
        Every row learned.
    whitened : (n, q)
        L⁻¹y.
    refactor : bool
        Factor from scratch at each batch, O(n³), as the paper times it.
    """

    kernel: Kernel
    noise: float
    refactor: bool
    X: Array
    y: Array
    panels: tuple[Panel, ...]
    whitened: Array
    recent: Recent = field(default_factory=Recent, compare=False)

    @classmethod
    def empty(cls, kernel: Kernel, noise: float, refactor: bool, X: Array, y: Array) -> Self:
        """Return the state that has learned nothing, on the device of X (·, d); y (·, q) has its outputs."""
        X, y = double(X[:0, :]), double(y[:0, :])
        return cls(kernel, noise, refactor, X, y, panels=(), whitened=y)

    @property
    def count(self) -> float:
        """The number of rows learned."""
        return int(self.X.shape[0])

    @property
    def rank(self) -> int:
        """The number of rows: the factor has full rank."""
        return int(self.X.shape[0])

    @property
    def trace_error(self) -> float:
        """Zero: nothing is approximated."""
        return 0.0

    @property
    def prior_trace(self) -> float:
        """See State."""
        return float(namespace(self.X).sum(self.kernel.diag(self.X)))

    def retuned(self, kernel: Kernel, noise: float) -> ExactState:
        """See State; O(n³)."""
        return ExactState.empty(kernel, noise, self.refactor, self.X, self.y).update(self.X, self.y)

    def update(self, X: Array, y: Array) -> ExactState:
        """See State. n·b + b² kernel entries, or all (n + b)²/2 of them with `refactor`."""
        xp, X, y = namespace(X), double(X), double(y)
        if self.refactor:
            X, y = xp.concat([self.X, X], axis=0), xp.concat([self.y, y], axis=0)
            out = ExactState.empty(self.kernel, self.noise, True, X, y)
        else:
            out = self
        for rows in slices(X.shape[0], PANEL_ROWS):
            out = out._append(X[rows, :], y[rows, :])
        return out

    def _append(self, X: Array, y: Array) -> ExactState:
        """Learn at most PANEL_ROWS rows, more where an indefinite kernel asks for a larger panel."""
        xp = namespace(X)
        solved = self.recent.features(X, self._cross)  # L⁻¹B
        signs = self._signs()
        left = xp.matrix_transpose(solved * signs[:, None])
        own = self.kernel.block(X) + self.noise * eye(X.shape[0], y)
        if (
            not self.kernel.positive_semidefinite
            and self.panels
            and _loses_digits(self.kernel, self.X, solved, own)
        ):
            # A pivot that is small in the last panel alone need not be so beside these rows: factor both together.
            before = _without_last_panel(self)
            n = int(before.count)
            return before._append(
                xp.concat([self.X[n:, :], X], axis=0), xp.concat([self.y[n:, :], y], axis=0)
            )
        schur = own - left @ solved
        inverse, own_signs, log_det = _root(schur, self.noise, self.kernel.positive_semidefinite)
        panel = Panel(left, inverse, own_signs, log_det)
        whitened = finite(inverse @ (y - left @ self.whitened), "the solution")
        panels = self.panels
        if panels and panels[-1].size + panel.size <= PANEL_ROWS:
            panels, panel = panels[:-1], _join(panels[-1], panel)
        return replace(
            self,
            X=xp.concat([self.X, X], axis=0),
            y=xp.concat([self.y, y], axis=0),
            panels=(*panels, panel),
            whitened=xp.concat([self.whitened, whitened], axis=0),
            recent=Recent(),
        )

    def _signs(self) -> Array:
        """Return the diagonal of D, shape (n,)."""
        empty = self.y[:0, 0]
        return namespace(self.y).concat([empty, *(p.signs for p in self.panels)])

    def _cross(self, X: Array) -> Array:
        """Return L⁻¹k(rows, X), shape (n, m); O(n² m)."""
        xp, m = namespace(X), X.shape[0]
        parts = halves(m, 512) if m >= 16 and self.panels else [slice(0, m)]
        columns = in_parallel(lambda c: _solve(self.panels, self.kernel.block(self.X, X[c, :])), parts, X)
        return columns[0] if len(columns) == 1 else xp.concat(columns, axis=1)

    def predict(self, X: Array, *, variance: bool = True, covariance: bool = False) -> Prediction:
        """See State; eq. (1). n·m kernel entries, O(n² m)."""
        X = double(X)
        if not covariance:
            return self.recent.predict(X, self._predict, variance=variance)
        solved = self._cross(X)
        signed = namespace(X).matrix_transpose(solved * self._signs()[:, None])
        return Prediction(signed @ self.whitened, covariance=self.kernel.block(X) - signed @ solved)

    def _predict(self, X: Array, features: Array | None, variance: bool) -> Prediction:
        """Predict; the `features` of rows are L⁻¹k(rows, X), shape (n, m)."""
        solved, xp = self._cross(X) if features is None else features, namespace(X)
        signed = solved * self._signs()[:, None]
        mean = xp.matrix_transpose(signed) @ self.whitened
        if not variance:
            return Prediction(mean, features=solved)
        return Prediction(mean, self.kernel.diag(X) - xp.sum(signed * solved, axis=0), features=solved)

    def left_out(self, X: Array, y: Array, numbers: Array) -> LeftOut | None:
        """See State; O(n² b) for b rows, less where they are the last ones. None for an indefinite kernel.

        Rasmussen & Williams (2006), eqs. (5.10) to (5.12): with the column e = L⁻¹eᵢ, K⁻¹ᵢᵢ = eᵀe and αᵢ = eᵀL⁻¹y.
        """
        if not self.kernel.positive_semidefinite:
            return None
        xp, n = namespace(X), self.X.shape[0]
        first = int(xp.min(numbers))
        # Above its own panel a column of L⁻¹ is zero.
        panels = list(self.panels)
        start = n
        while panels and start > first:
            start -= panels.pop().size
        places = index(range(start, n), self.y)
        rest = xp.astype(places[:, None] == numbers[None, :], self.y.dtype)
        columns = _solve(self.panels, rest, start)
        diagonal = xp.sum(columns * columns, axis=0)
        error = (xp.matrix_transpose(columns) @ self.whitened[start:, :]) / diagonal[:, None]
        variance = 1.0 / diagonal - self.noise
        return LeftOut(error, xp.where(variance > 0, variance, xp.zeros_like(variance)), self.noise)

    def recent_left_out(self, X: Array, y: Array) -> LeftOut | None:
        """See State."""
        return last_left_out(self, self.X, self.y)

    def log_evidence(self) -> float:
        """See State; −inf where K + σ²I is not positive definite."""
        xp, signs, q = namespace(self.y), self._signs(), self.y.shape[1]
        if bool(xp.any(signs < 0)):
            return -math.inf
        quadratic = float(xp.sum(self.whitened * self.whitened * signs[:, None]))
        log_det = sum(p.log_det for p in self.panels)
        return log_density(quadratic, log_det, self.X.shape[0], q)


def _loses_digits(kernel: Kernel, X: Array, solved: Array, own: Array) -> bool:
    """Return whether L⁻¹B (n, b) is so much larger than the kernel of rows X (n, d), own (b, b), that digits cancel."""
    xp = namespace(own)
    largest = xp.max(xp.abs(double(kernel.block(X[-1:, :], X))))
    size = max(float(largest), float(xp.max(xp.abs(own))))
    return float(xp.max(xp.sum(solved * solved, axis=0))) > GROWTH * size


def _without_last_panel(state: ExactState) -> ExactState:
    n = int(state.count) - state.panels[-1].size
    return replace(
        state,
        X=state.X[:n, :],
        y=state.y[:n, :],
        panels=state.panels[:-1],
        whitened=state.whitened[:n, :],
        recent=Recent(),
    )


def _solve(panels: tuple[Panel, ...], B: Array, start: int = 0) -> Array:
    """Return L⁻¹B for B (n, m), O(n² m); of B and of the result only the rows from a panel's `start` on."""
    xp, B = namespace(B), double(B)
    done, at = B[:0, :], 0
    for panel in panels:
        a = panel.left.shape[1]
        if a >= start:
            rest = B[at : at + panel.size, :] - panel.left[:, start:] @ done
            done, at = xp.concat([done, panel.inverse @ rest], axis=0), at + panel.size
    return done
