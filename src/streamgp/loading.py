"""The estimator that a file holds, and what was kept beside it."""

from __future__ import annotations

import os
from typing import Any

from . import checkpoint
from .classifier import StreamingGPClassifier, classifier_from
from .regressor import StreamingGPRegressor, regressor_from


def load(path: str | os.PathLike[str]) -> StreamingGPRegressor | StreamingGPClassifier:
    """Read a regressor or classifier that `save` wrote."""
    content = checkpoint.read(path)
    return classifier_from(path, content) if "classifier" in content else regressor_from(path, content)[0]


def load_with_more(path: str | os.PathLike[str]) -> tuple[StreamingGPRegressor, dict[str, Any]]:
    """Read a regressor and what was kept beside it."""
    return regressor_from(path, checkpoint.read(path))
