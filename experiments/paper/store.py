"""Results in one JSON file, saved after each task, with the code, the commit and the machine of each."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from streamgp.errors import DataError

# Seconds between two writings of the file.
EVERY = 5.0


class Store:
    """What tasks found, by key: {"about": …, "tasks": {key: {"found", "seconds", "made"}}}.

    Raises DataError where the file holds something else, or results of other settings or data.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path, self._saved = path, time.monotonic()
        self.content: dict[str, Any] = {"about": about, "made": [], "tasks": {}}
        if path.exists():
            self.content = read(path)
            if self.content["about"] != about:
                raise DataError(
                    f"{path} holds results of other settings or data; remove it or give another --output"
                )
        self._made: dict[str, str] = {}

    def begin(self, made: dict[str, str]) -> None:
        """Set the commit, machine and versions with which further tasks are run."""
        self._made = made

    def has(self, key: str) -> bool:
        """Return whether a task was run."""
        return key in self.content["tasks"]

    def remove(self, keys: Iterable[str]) -> None:
        """Forget the results of some tasks."""
        for key in list(keys):  # which may be those of the tasks themselves
            del self.content["tasks"][key]

    def add(self, key: str, found: dict[str, Any]) -> None:
        """Keep the result of a task."""
        known = self.content["made"]
        if self._made not in known:
            known.append(self._made)
        self.content["tasks"][key] = found | {"made": known.index(self._made)}
        if time.monotonic() - self._saved > EVERY:
            self.save()

    def save(self) -> None:
        """Write the file whole, then rename it; a line a task."""
        fresh = self.path.with_suffix(".tmp")
        tasks = self.content["tasks"]
        lines = [
            f"{json.dumps(key)}: {json.dumps(tasks[key], separators=(',', ':'))}" for key in sorted(tasks)
        ]
        head = [f'"{name}": {json.dumps(self.content[name], indent=1)}' for name in ("about", "made")]
        with fresh.open("w") as file:
            file.write("{" + ",\n".join(head) + ',\n"tasks": {\n' + ",\n".join(lines) + "\n}}\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)
        self._saved = time.monotonic()


def read(path: Path) -> dict[str, Any]:
    """Return the results in a file; raise DataError where it has none."""
    try:
        kept = json.loads(path.read_text())
    except ValueError as error:
        raise DataError(f"{path} is not a file of results ({error}); remove it") from error
    if not isinstance(kept, dict) or not all(
        isinstance(kept.get(k), kind) for k, kind in (("about", dict), ("made", list), ("tasks", dict))
    ):
        raise DataError(f"{path} is not a complete file of results; remove it")
    return kept
