"""Factorisations and triangular solves of SciPy's LAPACK during which other threads go on.

`scipy.linalg.lapack` keeps the interpreter's lock while it computes: a thread that predicts would wait 2 to 4 ms for
each factorisation of 500 rows that another thread makes (docs/latency.md). The same routines are called here through
the addresses that SciPy exports for Cython, and `ctypes` gives the lock up meanwhile. The bits are the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

_LETTERS = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}
_SCALARS = {"s": ctypes.c_float, "d": ctypes.c_double}
# Columns that are cleared at a time.
PANEL = 64


@cache
def _routine(module: ModuleType, name: str, n_arguments: int) -> Callable[..., None]:
    """Return a routine of Fortran, which takes addresses, as a function that gives up the interpreter's lock."""
    capsule = module.__pyx_capi__[name]
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address_of = ctypes.pythonapi.PyCapsule_GetPointer
    address_of.restype, address_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    signature = name_of(capsule)
    if b"int *" not in signature:  # with whole numbers of another size
        raise ImportError(f"SciPy's {name} has the signature {signature!r}, which is not known here")
    address = address_of(capsule, signature)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


def _at(value: Any) -> Any:
    return ctypes.addressof(value)


def _check(matrix: np.ndarray) -> str:
    """Return the letter of a matrix's type; it must lie in the order of Fortran, since its memory is handed over."""
    if not matrix.flags.f_contiguous or not matrix.flags.writeable:
        raise ValueError("a writable matrix in column-major order is needed")
    return _LETTERS[matrix.dtype]


def potrf(matrix: np.ndarray) -> int:
    """Overwrite an (n, n) matrix by its lower Cholesky factor; return 0, or the order of the minor that is not."""
    letter, n = _check(matrix), ctypes.c_int(matrix.shape[0])
    info, lower = ctypes.c_int(0), ctypes.c_char(b"L")
    _routine(cython_lapack, f"{letter}potrf", 5)(_at(lower), _at(n), matrix.ctypes.data, _at(n), _at(info))
    for start in range(0, matrix.shape[0], PANEL):
        columns = slice(start, start + PANEL)
        matrix[:start, columns] = 0.0
        square = matrix[columns, columns]
        square[np.triu_indices(len(square), 1)] = 0.0
    return info.value


def potri(factor: np.ndarray) -> int:
    """Overwrite the lower triangle of a lower Cholesky factor (n, n) by that of the inverse; return 0 on success."""
    letter, n = _check(factor), ctypes.c_int(factor.shape[0])
    info, lower = ctypes.c_int(0), ctypes.c_char(b"L")
    _routine(cython_lapack, f"{letter}potri", 5)(_at(lower), _at(n), factor.ctypes.data, _at(n), _at(info))
    return info.value


def trsm(factor: np.ndarray, right: np.ndarray, *, from_right: bool, lower: bool, transposed: bool) -> None:
    """Overwrite B, `right` (m, k), by op(A)⁻¹B, or by B op(A)⁻¹ `from_right`; A, `factor`, is triangular."""
    letter = _check(right)
    if factor.dtype != right.dtype or not factor.flags.f_contiguous:
        raise ValueError("both matrices must have one type, in column-major order")
    m, k = (ctypes.c_int(size) for size in right.shape)
    a, b = (ctypes.c_int(max(len(matrix), 1)) for matrix in (factor, right))
    side, shape = ctypes.c_char(b"R" if from_right else b"L"), ctypes.c_char(b"L" if lower else b"U")
    turn, diagonal, one = (
        ctypes.c_char(b"T" if transposed else b"N"),
        ctypes.c_char(b"N"),
        _SCALARS[letter](1.0),
    )
    _routine(cython_blas, f"{letter}trsm", 11)(
        _at(side), _at(shape), _at(turn), _at(diagonal), _at(m), _at(k),
        _at(one), factor.ctypes.data, _at(a), right.ctypes.data, _at(b),
    )  # fmt: skip
