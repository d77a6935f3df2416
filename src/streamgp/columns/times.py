"""Times as files spell them: read one by one, the order of day and month learned from the rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import numpy as np

# Names of columns that hold a part of a time each, in the order in which a time is put together.
PARTS = ("year", "month", "day", "hour", "minute", "second")
# What a time is given as: sine and cosine of its place in a day, a week and a year; the days since the first row.
CYCLES = {"day": 86400.0, "week": 7 * 86400.0, "year": 365.25 * 86400.0}
KINDS = (*CYCLES, "trend")
# A stream of less than a year knows nothing of years, and a trend has no end (docs/running.md has the figures).
DEFAULT_KINDS = ("day", "week")

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: i for i, name in enumerate(_MONTH_NAMES, start=1)}
_TIME = re.compile(
    r"""(?:(?P<y>\d{4})(?P<s>[-/.]?)(?P<m>\d\d?)(?P=s)(?P<d>\d\d?)
    |(?P<a>\d\d?)[-/.](?P<b>\d\d?)[-/.](?P<y2>\d{4}|\d\d)
    |(?P<d3>\d\d?)[-\ ./]?(?P<m3>[A-Za-z]{3})[a-z]*[-\ .,/]*(?P<y3>\d{4}|\d\d)
    |(?P<m4>[A-Za-z]{3})[a-z]*[\ .]+(?P<d4>\d\d?)(?:,\s*|\s+)(?P<y4>\d{4}))
    (?:[T,\s]\s*(?P<H>\d\d?)(?:[:.h]?(?P<M>\d\d)(?:[:.]?(?P<S>\d\d)(?:[.,](?P<f>\d+))?)?)?\s*(?P<ap>[AaPp][Mm])?)?
    \s*(?P<z>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?""",
    re.VERBOSE,
)
# The smallest number of a time in seconds, milliseconds, microseconds and nanoseconds since 1970.
_SINCE_1970 = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3), (1e8, 1.0))


@dataclass(frozen=True)
class Clock:
    """How the times of a stream are read.

    Attributes
    ----------
    names : tuple of str
        Columns that hold a time together.
    kinds : tuple of str
        What a time is given as, some of KINDS.
    format : str or None
        Of `datetime.strptime`; None for any usual spelling.
    zone : str or None
        Where clocks show the time: times with an offset are converted to it, others are times of it.
    day_first : bool or None
        Whether 10/03/2004 is in March; None as long as no row has shown it.
    first, last : float or None
        Seconds since 1970 of the first and of the last row.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    format: str | None = None
    zone: str | None = None
    day_first: bool | None = None
    first: float | None = None
    last: float | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """Names of what a time is given as."""
        cycles = [f"{kind}_{part}" for kind in CYCLES if kind in self.kinds for part in ("sin", "cos")]
        return (*cycles, *(("trend",) if "trend" in self.kinds else ()))

    @property
    def _in_parts(self) -> bool:
        return {name.lower() for name in self.names} >= set(PARTS[:3])

    def joined(self, cells: Sequence[Sequence[str]]) -> list[str]:
        """Return one text for each row from the cells (b,) of each of the columns; empty where one is missing."""
        if not self._in_parts:
            return [" ".join(row) if all(row) else "" for row in zip(*cells, strict=True)]
        place = {name.lower(): i for i, name in enumerate(self.names)}
        used = [place[part] for part in PARTS if part in place]
        out = []
        for row in zip(*cells, strict=True):
            numbers = [row[i].removesuffix(".0").zfill(2) for i in used]
            clock = numbers[3:] + ["00"] * (len(numbers) == 4)
            out.append(("-".join(numbers[:3]) + " " + ":".join(clock)).strip() if all(row) else "")
        return out

    def learned(self, texts: Sequence[str]) -> Clock:
        """Return the clock that knows the order of day and month, if these texts show it."""
        if self.day_first is not None or self.format is not None:
            return self
        for text in texts:
            match = _TIME.fullmatch(text)
            if match and match["a"] and (int(match["a"]) > 12) != (int(match["b"]) > 12):
                return replace(self, day_first=int(match["a"]) > 12)
        return self

    def read(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """Return seconds since 1970 (b,), those that a clock on the wall shows (b,), and the rows that are no time."""
        seconds, shown = np.full(len(texts), np.nan), np.full(len(texts), np.nan)
        wrong, last = [], self.last
        zone = None if self.zone is None else ZoneInfo(self.zone)
        for i, text in enumerate(texts):
            if not text:
                continue
            try:
                time = self._time(text)
                if zone is not None:
                    time = time.astimezone(zone) if time.tzinfo else _in_zone(time, zone, last)
            except (ValueError, OverflowError):
                wrong.append(i)
                continue
            shown[i] = time.replace(tzinfo=UTC).timestamp()
            seconds[i] = shown[i] if time.tzinfo is None else time.timestamp()
            last = seconds[i]
        return seconds, shown, wrong

    def given(self, seconds: np.ndarray, shown: np.ndarray) -> tuple[np.ndarray, Clock]:
        """Return the features (b, k) of times, and the clock after them."""
        known = seconds[np.isfinite(seconds)]
        first = float(known[0]) if self.first is None and known.size else self.first
        # 1970 began on a Thursday: three days after a Monday.
        angles = [2 * np.pi * (shown + 3 * 86400.0) / CYCLES[kind] for kind in CYCLES if kind in self.kinds]
        columns = [f(angle) for angle in angles for f in (np.sin, np.cos)]
        if "trend" in self.kinds:
            columns.append((seconds - (0.0 if first is None else first)) / 86400.0)
        features = np.stack(columns, axis=1) if columns else np.empty((len(seconds), 0))
        last = float(known[-1]) if known.size else self.last
        return features, replace(self, first=first, last=last)

    def _time(self, text: str) -> datetime:
        """Return the time that a text spells; raise ValueError if it spells none."""
        if self.format is not None:
            return datetime.strptime(text, self.format)
        match = _TIME.fullmatch(text)
        if match is None:
            return _since_1970(text)
        year, month, day = _date(match, self.day_first)
        hour, second = int(match["H"] or 0), min(int(match["S"] or 0), 59)
        if match["ap"]:
            if not 1 <= hour <= 12:
                raise ValueError(text)
            hour = hour % 12 + 12 * (match["ap"].lower() == "pm")
        late, hour = divmod(hour, 24) if hour == 24 else (0, hour)
        micro = int((match["f"] or "")[:6].ljust(6, "0"))
        time = datetime(year, month, day, hour, int(match["M"] or 0), second, micro, _offset(match["z"]))
        return time + timedelta(days=late)


def _date(match: re.Match[str], day_first: bool | None) -> tuple[int, int, int]:
    """Return year, month and day; without a row that showed it, the day is first unless the clock has am and pm."""
    if match["y"]:
        if not match["s"] and len(match["m"] + match["d"]) < 4:
            raise ValueError(match.group())
        return int(match["y"]), int(match["m"]), int(match["d"])
    if match["a"]:
        a, b = int(match["a"]), int(match["b"])
        day, month = (a, b) if (not match["ap"] if day_first is None else day_first) else (b, a)
        return _century(match["y2"]), month, day
    form = "3" if match["m3"] else "4"
    return _century(match[f"y{form}"]), _MONTHS.get(match[f"m{form}"].lower(), 0), int(match[f"d{form}"])


def _century(year: str) -> int:
    """Return a year of four digits; one of two is between 1970 and 2069."""
    return int(year) + (0 if len(year) == 4 else 1900 if int(year) >= 70 else 2000)


def _offset(text: str | None) -> tzinfo | None:
    if text is None:
        return None
    if text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return timezone(timedelta(minutes=minutes if text[0] == "+" else -minutes))


def _since_1970(text: str) -> datetime:
    if text.isascii() and text.isdigit() and len(text) in (12, 14):
        return datetime.strptime(text, "%Y%m%d%H%M%S"[: len(text) - 2])
    number = float(text) if text.isascii() and "_" not in text else float("nan")
    for smallest, a_second in _SINCE_1970:
        if number >= smallest:
            return datetime.fromtimestamp(number / a_second, UTC)
    raise ValueError(text)


def _in_zone(time: datetime, zone: ZoneInfo, last: float | None) -> datetime:
    """Return a time of a zone; of an hour that comes twice, the second if the first is over."""
    time = time.replace(tzinfo=zone)
    again = last is not None and time.timestamp() <= last < time.replace(fold=1).timestamp()
    return time.replace(fold=1) if again else time
