"""One process alone writes a model: a lock on a file beside it, which the system lifts when the process ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from ...errors import ParameterError


@contextmanager
def alone(*models: Path | None) -> Iterator[None]:
    """Hold the locks of models that this process writes; raise ParameterError where another process holds one."""
    with ExitStack() as stack:
        for model in dict.fromkeys(models):
            if model is not None:
                stack.enter_context(_locked(model))
        yield


@contextmanager
def _locked(model: Path) -> Iterator[None]:
    path = model.with_name(f".{model.name}.lock")
    file = _opened(path, model)
    try:
        file.truncate(0)
        file.write(f"process {os.getpid()} ({' '.join(sys.argv[1:2]) or 'streamgp'})")
        file.flush()
        yield
    finally:
        # Before the lock is lifted: later, the file might be that of the next process.
        path.unlink(missing_ok=True)
        file.close()


def _opened(path: Path, model: Path) -> IO[str]:
    """Return the file of a lock, locked."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return path.open("a+")
    while True:
        file = path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read(100) or "another process"
            file.close()
            raise ParameterError(
                f"{model} is in use by {holder}, which writes it; stop that first, or name another file"
            ) from error
        # Between opening and locking, its holder may have ended and removed the file.
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()
