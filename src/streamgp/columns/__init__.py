"""Columns that are not numbers, and values of earlier rows, for a stream: times, categories, lags.

`StreamColumns` turns raw rows into numbers and learns while it does; `StreamPipeline` puts it before a regressor.
"""

from .pipeline import StreamPipeline, load
from .times import DEFAULT_KINDS
from .transformer import StreamColumns

__all__ = ["DEFAULT_KINDS", "StreamColumns", "StreamPipeline", "load"]
