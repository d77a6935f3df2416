"""writing(gp): those who change an estimator wait for each other; those who read it never wait."""

from __future__ import annotations

import os
import threading
import weakref

# Outside the estimators, by identity: a lock that is no attribute is in no copy, pickle or checkpoint of one.
_locks: dict[int, threading.RLock] = {}
_registry = threading.Lock()


def writing(owner: object) -> threading.RLock:
    """Return the lock to hold while `owner` is changed, the same at each call."""
    with _registry:
        if id(owner) not in _locks:
            _locks[id(owner)] = threading.RLock()
            weakref.finalize(owner, _locks.pop, id(owner), None).atexit = False
        return _locks[id(owner)]


def _after_fork() -> None:
    """Let the child begin with new locks: one that a thread of the parent held would stay held forever."""
    global _registry
    _registry = threading.Lock()
    for key in _locks:
        _locks[key] = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
