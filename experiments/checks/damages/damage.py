"""One deliberate error in a source file, and the tests that must notice it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Damage:
    """Text of a file that is replaced by other text.

    Attributes
    ----------
    name : str
        The law that is broken.
    file : str
        Path from the root of the repository.
    old, new : str
    tests : str
        Expression for pytest's -k that selects the tests that must fail.
    places : int
        How often `old` stands in the file; all of them are replaced.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str
    places: int = 1

    def fault(self, root: Path) -> str | None:
        """Return why this damage cannot be done to the files below `root`, or None."""
        path = root / self.file
        if not path.is_file():
            return f"{self.name}: there is no file {self.file}"
        found = path.read_text().count(self.old)
        if found != self.places:
            return f"{self.name}: {self.old!r} stands {found} times in {self.file}, not {self.places}"
        return None

    def apply(self, root: Path) -> str:
        """Damage the file below `root`; return its text before."""
        path = root / self.file
        before = path.read_text()
        path.write_text(before.replace(self.old, self.new))
        return before
