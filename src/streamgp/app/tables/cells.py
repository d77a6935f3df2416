"""Numbers as files hold them: a decimal point or comma, and cells that mean 'missing'."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

# Texts that mean 'missing' in every file, whatever their case.
ALWAYS_MISSING = frozenset({"", "na", "nan", "null"})


class Cells:
    """Reader of numbers.

    Parameters
    ----------
    decimal : {".", ","}
    missing : texts
        That mean 'missing' beside ALWAYS_MISSING; one that is a number means every number of that value.
    """

    def __init__(self, decimal: str = ".", missing: Iterable[str] = ()) -> None:
        self.decimal, self.texts = decimal, ALWAYS_MISSING | {text.strip().lower() for text in missing}
        self.plain = decimal == "."
        values = (self._value(text) for text in missing if is_number(self._pointed(text)))
        self.numbers = np.array(sorted({v for v in values if math.isfinite(v)}))

    def _pointed(self, text: str) -> str:
        """Return a number with a decimal point; one that has a point and a decimal comma is no number."""
        return text if self.plain else text.replace(".", "_").replace(self.decimal, ".")

    def _value(self, text: str) -> float:
        return float(self._pointed(text))

    def is_missing(self, text: str) -> bool:
        """Return whether a cell means 'missing'."""
        return text.strip().lower() in self.texts

    def number(self, text: str) -> float:
        """Return the number in a cell, NaN if it is missing; raise ValueError with what is wrong with it."""
        if self.is_missing(text):
            return math.nan
        pointed = self._pointed(text.strip())
        if not is_number(pointed):
            raise ValueError(f"{text.strip()[:60]!r} is not a number{self._remedy(text)}")
        value = float(pointed)
        if math.isinf(value):
            raise ValueError(f"{text.strip()} is not finite")
        return value

    def _remedy(self, text: str) -> str:
        other = "," if self.plain else "."
        readable = other in text and is_number(text.strip().replace(other, ".", 1))
        return f" (with --decimal {other} it would be)" if readable else ""

    def without_missing(self, values: np.ndarray) -> np.ndarray:
        """Return values with NaN in the place of numbers that mean 'missing'."""
        if self.numbers.size and values.size:
            values[np.isin(values, self.numbers)] = np.nan
        return values

    def text(self, value: Any) -> str:
        """Return a cell as text without blanks around it, empty if it is missing."""
        text = "" if value is None else str(value).strip()
        return "" if text.lower() in self.texts else text


def is_number(text: str) -> bool:
    """Return whether text is a number as files have it; Python also accepts 1_000 and digits of any script."""
    if "_" in text or not text.isascii():
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True
