"""Deliberate errors, a module for each layer, that `break_the_laws` makes one at a time."""

from . import application, benchmark, learner, mathematics, methods, online, outputs, services
from .damage import Damage

DAMAGES: list[Damage] = [
    *mathematics.DAMAGES,
    *methods.DAMAGES,
    *online.DAMAGES,
    *outputs.DAMAGES,
    *learner.DAMAGES,
    *services.DAMAGES,
    *application.DAMAGES,
    *benchmark.DAMAGES,
]

__all__ = ["DAMAGES", "Damage"]
