"""`load`: the estimator that a file holds."""

from __future__ import annotations

import os

from . import checkpoint
from .classifier import StreamingGPClassifier, classifier_from
from .regressor import StreamingGPRegressor, regressor_from


def load(path: str | os.PathLike[str]) -> StreamingGPRegressor | StreamingGPClassifier:
    """Read a regressor or classifier that `save` wrote."""
    content = checkpoint.read(path)
    return classifier_from(path, content) if "classifier" in content else regressor_from(path, content)[0]
