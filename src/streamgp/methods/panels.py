"""Chain: a Cholesky factor of K + ρI that grows by blocks, and the targets of the outputs that share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from .._arrays import (
    Array,
    cholesky,
    diagonal_matrix,
    double,
    eigh,
    eye,
    finite,
    halves,
    in_parallel,
    namespace,
    solve_lower,
    zeros,
)
from ..errors import NumericalError
from ..kernels import Kernel

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


@dataclass(frozen=True)
class Chain:
    """L of K + ρI = L D Lᵀ in panels, for one noise variance ρ.

    Attributes
    ----------
    noise : float
        ρ.
    panels : of all rows
    whitened : (n, q')
        L⁻¹y of the outputs that have this noise.
    """

    noise: float
    panels: tuple[Panel, ...]
    whitened: Array

    def append(
        self,
        kernel: Kernel,
        X: Array,
        y: Array,
        weights: Array | None = None,
        *,
        solved: Array | None = None,
        own: Array | None = None,
    ) -> Self:
        """Learn the rows of X (n, d), y (n, q') that follow those learned, as one panel or in the last one.

        The noise of a row of weight w, `weights` (n,) or ones, is ρ/w.

        `solved` is L⁻¹k(X, new) (·, b) and `own` k(new, new) (b, b), computed where they are not given. More rows are
        learned together where an indefinite kernel asks for a larger panel.
        """
        xp, n = namespace(X), int(self.whitened.shape[0])
        old, new = X[:n, :], X[n:, :]
        solved = cross([self], kernel, old, new)[0] if solved is None else solved
        left = xp.matrix_transpose(solved * self.signs()[:, None])
        noises = (
            self.noise * eye(new.shape[0], y)
            if weights is None
            else diagonal_matrix(self.noise / weights[n:])
        )
        own = (kernel.block(new) if own is None else own) + noises
        if not kernel.positive_semidefinite and self.panels and _loses_digits(kernel, old, solved, own):
            # A pivot that is small in the last panel alone need not be so beside these rows: factor both together.
            return self._without_last_panel().append(kernel, X, y, weights)
        schur = own - left @ solved
        inverse, own_signs, log_det = _root(schur, self.noise, kernel.positive_semidefinite)
        panel = Panel(left, inverse, own_signs, log_det)
        whitened = finite(inverse @ (y[n:, :] - left @ self.whitened), "the solution")
        panels = self.panels
        if panels and panels[-1].size + panel.size <= PANEL_ROWS:
            panels, panel = panels[:-1], _join(panels[-1], panel)
        whitened = xp.concat([self.whitened, whitened], axis=0)
        return replace(self, panels=(*panels, panel), whitened=whitened)

    def _without_last_panel(self) -> Self:
        n = int(self.whitened.shape[0]) - self.panels[-1].size
        return replace(self, panels=self.panels[:-1], whitened=self.whitened[:n, :])

    def signs(self) -> Array:
        """Return the diagonal of D, shape (n,)."""
        empty = self.whitened[:0, 0]
        return namespace(empty).concat([empty, *(p.signs for p in self.panels)])

    def solve(self, B: Array, start: int = 0) -> Array:
        """Return L⁻¹B for B (n, m), O(n² m); of B and of the result only the rows from a panel's `start` on."""
        xp, B = namespace(B), double(B)
        done, at = B[:0, :], 0
        for panel in self.panels:
            a = panel.left.shape[1]
            if a >= start:
                rest = B[at : at + panel.size, :] - panel.left[:, start:] @ done
                done, at = xp.concat([done, panel.inverse @ rest], axis=0), at + panel.size
        return done

    def solve_transposed(self, B: Array) -> Array:
        """Return L⁻ᵀB for B (n, m), O(n² m)."""
        xp, rest, out, end = namespace(B), double(B), [], int(B.shape[0])
        for panel in reversed(self.panels):
            start = end - panel.size
            solved = xp.matrix_transpose(panel.inverse) @ rest[start:end, :]
            rest = rest[:start, :] - xp.matrix_transpose(panel.left) @ solved
            out.append(solved)
            end = start
        return xp.concat(out[::-1], axis=0) if out else rest

    def panel_start(self, row: int) -> int:
        """Return the first row of the panel of a row."""
        start = int(self.whitened.shape[0])
        for panel in reversed(self.panels):
            if start <= row:
                break
            start -= panel.size
        return start


def cross(chains: Sequence[Chain], kernel: Kernel, rows: Array, X: Array) -> list[Array]:
    """Return L⁻¹k(rows, X), shape (n, m), of each chain; O(n² m), kernel entries are computed once."""
    xp, m = namespace(X), X.shape[0]
    parts = halves(m, 512) if m >= 16 and chains[0].panels else [slice(0, m)]

    def solved(part: slice) -> list[Array]:
        block = kernel.block(rows, X[part, :])
        return [chain.solve(block) for chain in chains]

    found = in_parallel(solved, parts, X)
    return (
        found[0]
        if len(found) == 1
        else [xp.concat(list(pieces), axis=1) for pieces in zip(*found, strict=True)]
    )


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


def _loses_digits(kernel: Kernel, X: Array, solved: Array, own: Array) -> bool:
    """Return whether L⁻¹B (n, b) is so much larger than the kernel of rows X (n, d), own (b, b), that digits cancel."""
    xp = namespace(own)
    largest = xp.max(xp.abs(double(kernel.block(X[-1:, :], X))))
    size = max(float(largest), float(xp.max(xp.abs(own))))
    return float(xp.max(xp.sum(solved * solved, axis=0))) > GROWTH * size
