"""The methods: each is an immutable state whose update returns the next one; `factory` says which serves what."""

from .base import MergeableState, Prediction, State, predict_in_chunks
from .factory import empty_state

__all__ = ["MergeableState", "Prediction", "State", "empty_state", "predict_in_chunks"]
