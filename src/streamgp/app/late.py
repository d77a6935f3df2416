"""Labels that come on later lines: rows are known again by a key, and wait in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from .tables import TableRows


@dataclass(frozen=True)
class Waiting:
    """A row that was predicted: its number, features (d,), which labels have come (q,), and its prediction (4, q)."""

    row: int
    x: np.ndarray
    known: np.ndarray
    answer: np.ndarray


@dataclass(frozen=True)
class Matched:
    """Labels and the rows that they belong to; `again` counts rows that another label was learned of before.

    `batch` has the features and labels, and the numbers of the lines that the labels came on; `rows` (b,) are the
    numbers of the rows, `answers` (4, b, q) their predictions: mean, standard deviation and ends.
    """

    batch: TableRows
    rows: np.ndarray
    answers: np.ndarray
    again: int


@dataclass(frozen=True)
class LateLabels:
    """The newest rows by their key, at most `most`; an update returns a new one.

    Attributes
    ----------
    waiting : dict
        The oldest first; those whose labels are all known stay as well, so that a second label is recognised.
    came, unknown, twice, given_up : int
        Labels that came late and were learned; lines with a label of no row that is known; labels that were known
        before; rows that had to make place before all their labels came.
    """

    most: int
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    came: int = 0
    unknown: int = 0
    twice: int = 0
    given_up: int = 0

    def sorted_out(self, batch: TableRows, n_texts: int) -> tuple[TableRows, TableRows, LateLabels]:
        """Return the lines of a batch that are rows, those with labels of earlier rows, and the counts after them.

        A line whose key came before brings labels; one with labels and no feature is of a row that is not known. The
        key is the last text, the first `n_texts` are features.
        """
        if not batch.line_numbers:
            return batch, replace(batch, bad=[]), self
        keys = batch.texts[:, -1].tolist()
        has_features = np.isfinite(batch.X).any(axis=1) | (batch.texts[:, :n_texts] != "").any(axis=1)
        has_label = np.isfinite(batch.y).any(axis=1)
        seen, unknown = set(self.waiting), 0
        is_row, is_label = np.zeros((2, len(keys)), dtype=bool)
        for i, key in enumerate(keys):
            is_label[i] = key in seen
            is_row[i] = not is_label[i] and bool(has_features[i] or not has_label[i])
            unknown += not (is_label[i] or is_row[i])
            seen |= {key} if is_row[i] and key else set()
        rows, labels = batch.only(is_row), replace(batch, bad=[]).only(is_label)
        return rows, labels, replace(self, unknown=self.unknown + unknown)

    def remember(
        self, keys: Sequence[str], rows: np.ndarray, X: np.ndarray, y: np.ndarray, answers: np.ndarray
    ) -> LateLabels:
        """Return this with more rows, their features (b, d), labels (b, q) so far and predictions (4, b, q)."""
        waiting = dict(self.waiting)
        known = np.isfinite(y)
        for i, key in enumerate(keys):
            if key:
                waiting[key] = Waiting(int(rows[i]), X[i].copy(), known[i], answers[:, i].copy())
        given_up = 0
        for key in list(waiting)[: max(len(waiting) - self.most, 0)]:
            given_up += not waiting.pop(key).known.all()
        return replace(self, waiting=waiting, given_up=self.given_up + given_up)

    def matched(self, lines: TableRows) -> tuple[Matched | None, LateLabels]:
        """Return the rows that labels belong to, None if there are none, and this with the labels."""
        keys = lines.texts[:, -1].tolist() if lines.line_numbers else []
        waiting, twice, unknown = dict(self.waiting), 0, 0
        found: list[tuple[Waiting, np.ndarray, int]] = []
        at: list[int] = []
        for i, (key, labels, line) in enumerate(zip(keys, lines.y, lines.line_numbers, strict=True)):
            entry = waiting.get(key)
            if entry is None:  # it had to make place within the batch
                unknown += 1
                continue
            new = np.isfinite(labels) & ~entry.known
            twice += int((np.isfinite(labels) & entry.known).sum())
            if new.any():
                waiting[key] = replace(entry, known=entry.known | new)
                found.append((entry, np.where(new, labels, np.nan), line))
                at.append(i)
        came = self.came + sum(int(np.isfinite(labels).sum()) for _, labels, _ in found)
        after = replace(
            self, waiting=waiting, came=came, twice=self.twice + twice, unknown=self.unknown + unknown
        )
        if not found:
            return None, after
        entries = [entry for entry, _, _ in found]
        batch = TableRows(
            np.array([entry.x for entry in entries]), np.array([labels for _, labels, _ in found]),
            [line for _, _, line in found], weights=lines.weights if lines.weights is None else lines.weights[at],
        )  # fmt: skip
        rows = np.array([entry.row for entry in entries])
        answers = np.stack([entry.answer for entry in entries], axis=1)
        return Matched(batch, rows, answers, sum(bool(entry.known.any()) for entry in entries)), after

    def lines(self) -> Iterator[str]:
        """Yield sentences about labels that came late, and those that did not."""
        open_ = sum(not entry.known.all() for entry in self.waiting.values())
        yield f"{self.came:,} labels came late and were learned; {open_:,} rows wait for theirs"
        for count, what in (
            (self.unknown, "lines with a label of no row that is known"),
            (self.twice, "labels that were known before: the first counts"),
            (
                self.given_up,
                f"rows given up, since {self.most:,} newer ones came before their label (--max-ids)",
            ),
        ):
            if count:
                yield f"{count:,} {what}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers, texts and arrays, for a checkpoint."""
        names = [part.name for part in fields(Waiting)]
        arrays = {name: np.array([getattr(row, name) for row in self.waiting.values()]) for name in names}
        counts = asdict(replace(self, waiting={}))
        return {**counts, "waiting": {"keys": tuple(self.waiting), **arrays}}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> LateLabels:
        """Return what `to_dict` was called on."""
        stored = dict(content["waiting"])
        keys, rows = stored.pop("keys"), stored.pop("row")
        waiting = {
            key: Waiting(int(rows[i]), **{name: part[i] for name, part in stored.items()})
            for i, key in enumerate(keys)
        }
        return cls(**{**content, "waiting": waiting})
