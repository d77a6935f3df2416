"""writing(gp): those who change an estimator wait for each other; those who read it never wait."""

from __future__ import annotations

import os
import threading
from weakref import WeakKeyDictionary

# Outside the estimators: a lock that is no attribute is in no copy, pickle or checkpoint of one.
_locks: WeakKeyDictionary[object, threading.RLock] = WeakKeyDictionary()
_registry = threading.Lock()


def writing(owner: object) -> threading.RLock:
    """Return the lock to hold while `owner` is changed, the same at each call."""
    with _registry:
        return _locks.setdefault(owner, threading.RLock())


def _after_fork() -> None:
    """Let the child begin with no lock: one that a thread of the parent held would stay held forever."""
    global _registry
    _locks.clear()
    _registry = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
