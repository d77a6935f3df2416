"""Which source a result depends on, and whether it has changed since: digests of code without its text."""

from __future__ import annotations

import ast
import hashlib
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from experiments.common import ROOT

FOLDERS = {"streamgp": ROOT / "src" / "streamgp", "experiments": ROOT / "experiments"}
# Used by every experiment for its loaders and units: its own text counts, what it imports does not.
LEAVES = ("experiments.common",)


def digest(function: str, arguments: str = "") -> str:
    """Return a digest of the code behind "module:function" of this package and of its arguments."""
    return hashlib.sha256((_source(function.partition(":")[0]) + arguments).encode()).hexdigest()[:12]


@cache
def _source(module: str) -> str:
    """Return the code of a module of this package and of all that it imports, docstrings and comments aside."""
    return "".join(_code(name) for name in sorted(closure(f"experiments.paper.{module}")))


def closure(module: str) -> set[str]:
    """Return the modules of this repository that a module imports, directly or not, and itself."""
    found, open_modules = set(), [module]
    while open_modules:
        name = open_modules.pop()
        if name in found or _path(name) is None:
            continue
        found.add(name)
        if name not in LEAVES:
            open_modules += _imports(name)
    return found


def commit() -> str:
    """Return the commit that is checked out, with '+' where files of it have changed; empty outside a repository."""
    try:
        head = _git("rev-parse", "--short=10", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def _path(name: str) -> Path | None:
    """Return the file of a module of this repository."""
    first, *rest = name.split(".")
    if first not in FOLDERS:
        return None
    base = FOLDERS[first].joinpath(*rest)
    return next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)


@cache
def _tree(name: str) -> ast.Module:
    path = _path(name)
    assert path is not None
    return ast.parse(path.read_text())


def _imports(name: str) -> Iterator[str]:
    """Yield the modules that a module imports at its top level, relative names resolved; a type alone is no import."""
    path = _path(name)
    package = name if path and path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(_tree(name)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package
            for _ in range(node.level - 1):
                base = base.rpartition(".")[0]
            origin = ".".join(filter(None, (base if node.level else "", node.module or "")))
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def _code(name: str) -> str:
    """Return the source of a module without docstrings, comments and layout: the same under every version of Python."""
    path = _path(name)
    assert path is not None
    lines = path.read_text().splitlines()
    for node in ast.walk(_tree(name)):
        first = node.body[0] if isinstance(getattr(node, "body", None), list) and node.body else None  # type: ignore[attr-defined]
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            lines[first.lineno - 1 : first.end_lineno] = [""] * (first.end_lineno - first.lineno + 1)  # type: ignore[operator]
    marks = {tokenize.INDENT: "{", tokenize.DEDENT: "}", tokenize.NEWLINE: ";"}
    ignored = (tokenize.COMMENT, tokenize.NL)
    tokens = tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline)
    text = "".join(marks.get(t.type, "".join(t.string.split())) for t in tokens if t.type not in ignored)
    return re.sub(r",([)\]}])", r"\1", text)
