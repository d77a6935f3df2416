"""Alarms: rules about the last rows of a run, and which of them hold. Known to no command line."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..errors import ParameterError
from ..evaluation import TINY
from .watches import DriftWatch, Silence, Watch, Window

# Kind: how its statistic is compared with the bound, and what a rule without a bound means. A bound with an x is a
# multiple of the RMSE of all rows before those that the rule looks at.
DEFAULTS = {
    "coverage": ("<", None, False, 500),  # twice as many targets outside as there should be
    "rmse": (">", 2.0, True, 500),
    "bias": (">", 1.0, True, 500),
    "missing": (">", 0.5, False, 500),
    "drift": (">", 1e9, False, 0),
}
MOST_ROWS = 10_000
# Alarms that are kept word by word; all are counted.
KEPT = 100

_FORM = re.compile(
    r"(?P<kind>[a-z]+)(?:\s+of\s+(?P<name>.+?))?"
    r"(?:\s*(?P<sign>[<>])\s*(?P<bound>[^\sx]+)(?P<times>x)?)?(?:\s+over\s+(?P<over>\d+))?"
)


@dataclass(frozen=True)
class Rule:
    """When to raise an alarm: a statistic of the last `over` rows is beyond a bound.

    Attributes
    ----------
    kind : {"coverage", "rmse", "bias", "missing", "drift"}
    name : str, optional
        The target (for "missing": the column) that the rule is about; by default each one by itself.
    bound : float
    relative : bool
        Whether the bound is a multiple of the RMSE before.
    over : int
        Rows that are looked at; 0 for "drift", which finds the beginning by itself.
    """

    kind: str
    name: str | None
    bound: float
    relative: bool
    over: int

    def __str__(self) -> str:
        """Return the rule as `parse` reads it."""
        about = f" of {self.name}" if self.name is not None else ""
        rows = f" over {self.over}" if self.over else ""
        return f"{self.kind}{about}{DEFAULTS[self.kind][0]}{self.bound:g}{'x' * self.relative}{rows}"

    def holds(self, statistic: np.ndarray) -> np.ndarray:
        """Return whether the statistic is beyond the bound; False for NaN."""
        return statistic < self.bound if DEFAULTS[self.kind][0] == "<" else statistic > self.bound


def parse(text: str, level: float = 0.9) -> Rule:
    """Return the rule that a text like 'coverage<0.8 over 500', 'rmse of NOx>2x' or 'drift' stands for.

    Raise ParameterError for a text that is no rule. `level` is that of the intervals.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None or found["kind"] not in DEFAULTS:
        raise ParameterError(
            f"{text!r} is not an alarm; write one of {', '.join(DEFAULTS)} or all, for one column 'rmse of COLUMN', "
            "and if the default bound does not suit, 'coverage<0.8 over 500' or 'rmse>2x over 200'"
        )
    kind = found["kind"]
    sign, bound, relative, over = DEFAULTS[kind]
    bound = max(2 * level - 1, level / 2) if bound is None else bound
    if found["bound"] is not None:
        if found["sign"] != sign:
            raise ParameterError(f"{text!r}: {kind} raises an alarm when it is {sign} a bound")
        bound, relative = _number(found["bound"], text), found["times"] is not None
        if relative and kind not in ("rmse", "bias"):
            raise ParameterError(
                f"{text!r}: a bound with an x, a multiple of the RMSE before, suits rmse and bias"
            )
    if found["over"] is not None:
        over = int(found["over"])
        if kind == "drift":
            raise ParameterError(f"{text!r}: drift finds by itself when it began; leave out 'over {over}'")
        if not 2 <= over <= MOST_ROWS:
            raise ParameterError(f"{text!r} must be over 2 to {MOST_ROWS:,} rows")
    if kind in ("coverage", "missing") and not 0 < bound < 1:
        raise ParameterError(f"{text!r}: the bound of {kind} is a share of rows, above 0 and below 1")
    return Rule(kind, found["name"], bound, relative, over)


def parse_all(texts: Sequence[str], level: float = 0.9) -> tuple[Rule, ...]:
    """Return the rules of several texts, each once; 'all' stands for one of each kind with its default bound."""
    single = [part for text in texts for part in (DEFAULTS if text.strip() == "all" else (text,))]
    return tuple(dict.fromkeys(parse(text, level) for text in single))


def _number(text: str, rule: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ParameterError(f"{rule!r}: {text} must be a number above 0")
    return value


@dataclass(frozen=True)
class Alarm:
    """An alarm that was raised.

    Attributes
    ----------
    rule : str
    name : str
        Of the target or column.
    line : int
        The row at which it was raised.
    value : float
        The statistic of the rule; for "drift", the logarithm of the evidence.
    text : str
        The alarm in words.
    """

    rule: str
    name: str
    line: int
    value: float
    text: str


@dataclass(frozen=True)
class Scored:
    """Rows that were answered, and what was measured.

    Attributes
    ----------
    lines : (b,)
        Line numbers, or another count of rows.
    y, mean, std : (b, q)
        NaN in y where a label is not known, in mean and std where nothing was predicted.
    inside : (b, q)
        Whether targets lie inside their interval.
    refused : (b,)
        Rows that were not learned: all rules but "drift" leave them out, as the summary does.
    missing : (b, d)
        Which values to predict from are missing; anything if no rule asks for it.
    names : sequence of str
        Names of the rows, such as their times.
    """

    lines: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    inside: np.ndarray
    refused: np.ndarray
    missing: np.ndarray
    names: Sequence[str]

    def rows(self, kind: str, j: int) -> np.ndarray:
        """Return the rows, as indices, that a rule of this kind about target j looks at."""
        if kind == "missing":
            return np.arange(len(self.lines))
        known = np.isfinite(self.y[:, j]) & np.isfinite(self.mean[:, j])
        return np.flatnonzero(known if kind == "drift" else known & ~self.refused)

    def values(self, kind: str, j: int, rows: np.ndarray) -> np.ndarray:
        """Return what a rule of this kind about target j looks at, of some rows."""
        if kind == "missing":
            return self.missing
        with np.errstate(over="ignore", invalid="ignore"):
            error = self.y[rows, j] - self.mean[rows, j]
            if kind == "drift":
                return np.asarray(error / np.maximum(self.std[rows, j], TINY))
        return np.column_stack([error, self.inside[rows, j]])


_WATCHES: dict[str, type[Watch]] = dict.fromkeys(DEFAULTS, Window) | {
    "missing": Silence,
    "drift": DriftWatch,
}


@dataclass(frozen=True)
class Alarms:
    """Rules, what each looks at, and the alarms raised so far; immutable.

    Attributes
    ----------
    rules : tuple of Rule
    targets, columns : tuple of str
        The targets, and the columns that they are predicted from.
    watches : tuple of (int, int, watch)
        Rule, target, and what it looks at. A rule about missing values has one watch of all columns, target -1.
    count : int
        Alarms raised.
    kept : tuple of Alarm
        The last ones, at most KEPT.
    """

    rules: tuple[Rule, ...]
    targets: tuple[str, ...]
    columns: tuple[str, ...]
    watches: tuple[tuple[int, int, Watch], ...]
    count: int = 0
    kept: tuple[Alarm, ...] = ()

    @classmethod
    def of(cls, rules: Sequence[Rule], targets: Sequence[str], columns: Sequence[str]) -> Self:
        """Return alarms before the first row; raise ParameterError if a rule names no target or column."""
        watches: list[tuple[int, int, Watch]] = []
        for i, rule in enumerate(rules):
            names = columns if rule.kind == "missing" else targets
            if rule.name is not None and rule.name not in names:
                what = "columns to predict from" if rule.kind == "missing" else "targets"
                raise ParameterError(f"the alarm '{rule}' names none of the {what}: {', '.join(names)}")
            if rule.kind == "missing":
                watches.append((i, -1, Silence.of(len(columns))))
                continue
            about = [j for j, target in enumerate(targets) if rule.name in (None, target)]
            watches += [(i, j, _WATCHES[rule.kind]()) for j in about]
        return cls(tuple(rules), tuple(targets), tuple(columns), tuple(watches))

    @property
    def looks_at_inputs(self) -> bool:
        """Whether a rule is about missing values, so that `add` needs to know them."""
        return any(rule.kind == "missing" for rule in self.rules)

    def add(self, scored: Scored) -> tuple[Alarms, tuple[Alarm, ...]]:
        """Return the alarms after rows, and those that these rows raise, in the order of the rows."""
        watches, raised = [], []
        for i, j, watch in self.watches:
            rule = self.rules[i]
            rows = scored.rows(rule.kind, j)
            later, found = watch.step(rule, scored.values(rule.kind, j, rows))
            watches.append((i, j, later))
            for at in found:
                name = self.columns[at.column] if rule.kind == "missing" else self.targets[j]
                if rule.name in (None, name):
                    line = int(scored.lines[rows[at.row]])
                    text = f"{scored.names[rows[at.row]]}: {_in_words(rule, name, at.value, at.how)}"
                    raised.append(Alarm(str(rule), name, line, at.value, text))
        raised.sort(key=lambda alarm: alarm.line)
        kept = (*self.kept, *raised)[-KEPT:]
        return replace(self, watches=tuple(watches), count=self.count + len(raised), kept=kept), tuple(raised)

    def to_dict(self) -> dict[str, Any]:
        """Return what was seen, as numbers, texts, arrays and tuples, for a checkpoint."""
        return {
            "watches": tuple(watch.to_dict() for _, _, watch in self.watches),
            "count": self.count,
            "kept": tuple(alarm.__dict__ for alarm in self.kept),
        }

    def restored(self, content: dict[str, Any]) -> Alarms:
        """Return alarms by the same rules that have seen what `to_dict` returned."""
        watches = tuple(
            (i, j, type(watch).from_dict(seen))
            for (i, j, watch), seen in zip(self.watches, content["watches"], strict=True)
        )
        kept = tuple(Alarm(**alarm) for alarm in content["kept"])
        return replace(self, watches=watches, count=content["count"], kept=kept)


def _in_words(rule: Rule, name: str, value: float, how: str) -> str:
    """Return what was found, for a person."""
    if rule.kind == "drift":
        return f"the errors of {name} are {how} (evidence 10^{value / math.log(10):.0f})"
    last = f"over the last {rule.over:,} rows"
    if rule.kind == "missing":
        return f"{name} is missing in {value:.1%} of the last {rule.over:,} rows"
    if rule.kind == "coverage":
        return f"{value:.1%} of {name} inside the intervals {last}, less than {rule.bound:.1%}"
    what = {"rmse": "RMSE", "bias": "mean error"}[rule.kind]
    if rule.relative:
        return f"the {what} of {name} {last} is {value:.2f} times the RMSE before"
    return f"the {what} of {name} {last} is {value:.4g}, more than {rule.bound:.4g}"
