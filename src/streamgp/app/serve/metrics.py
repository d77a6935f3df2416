"""Metrics for Prometheus: what is counted and timed here, and what the model says at the time of a scrape."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...regressor import StreamingGPRegressor
from ..tally import Tally
from .feed import Feed

_BUCKETS = (
    0.0005,
    0.001,
    0.002,
    0.003,
    0.005,
    0.0075,
    0.01,
    0.02,
    0.03,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
)
# Requests of which the page shows median and 99 %.
_RECENT = 1000


class Watched(Protocol):
    """What is measured: a service, or a run from a file."""

    feed: Feed
    exchanged: int

    @property
    def gp(self) -> StreamingGPRegressor:
        """The model."""

    @property
    def tally(self) -> Tally:
        """Counts and scores."""

    @property
    def level(self) -> float:
        """Probability of the intervals."""

    @property
    def fitted(self) -> bool:
        """Whether the model has learned anything."""


class Metrics:
    """Counters and timers of requests, and a collector of what the model says."""

    def __init__(self, watched: Watched, saved_at: Callable[[], float] | None = None) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_ModelCollector(watched))
        if saved_at is not None:
            age = Gauge(
                "streamgp_checkpoint_age_seconds", "Time since the last checkpoint", registry=self._registry
            )
            age.set_function(lambda: time.time() - saved_at())
        self.predicted = Counter(
            "streamgp_rows_predicted", "Rows predicted on request", registry=self._registry
        )
        self.requests = Counter(
            "streamgp_requests", "Requests answered", ("route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "streamgp_request_seconds", "Time to answer a request", ("route",), buckets=_BUCKETS,
            registry=self._registry,
        )  # fmt: skip
        self._recent: dict[str, deque[float]] = {}

    def timed(self, route: str, seconds: float) -> None:
        """Count the time of a request that succeeded."""
        self._seconds.labels(route).observe(seconds)
        self._recent.setdefault(route, deque(maxlen=_RECENT)).append(seconds)

    def latencies(self) -> dict[str, list[float]]:
        """Return median and 99 % of the last requests in milliseconds, by route."""
        each = {route: list(values) for route, values in list(self._recent.items())}
        return {
            route: [round(1e3 * float(q), 2) for q in np.quantile(v, (0.5, 0.99))]
            for route, v in each.items()
        }

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class _ModelCollector(Collector):
    """Reads the model when it is scraped."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the stream and of the model."""
        watched = self._watched
        tally, feed, targets = watched.tally, watched.feed, watched.feed.targets
        for name, value, text in (
            ("rows_learned", tally.learned, "Rows learned"),
            ("rows_refused", tally.refused, "Rows that the guard refused"),
            ("rows_bad", tally.bad, "Rows that could not be learned"),
            ("rows_unlabelled", tally.unlabelled, "Rows of a run without a label"),
            ("alarms", feed.alarmed, "Alarms"),
            ("pivots_exchanged", watched.exchanged, "Inducing points that gave way to others"),
        ):
            yield CounterMetricFamily(f"streamgp_{name}", text, value=value)
        yield GaugeMetricFamily(
            "streamgp_coverage_nominal", "Probability of the intervals", value=watched.level
        )
        if (recent := feed.recent()) is not None:
            with np.errstate(invalid="ignore", divide="ignore"):
                n = recent.scored
                yield _each(
                    "rmse", "RMSE of about the last 1,000 rows", targets, np.sqrt(recent.squared_error / n)
                )
                yield _each(
                    "rmse_last_value",
                    "The same of the last value before each row",
                    targets,
                    np.sqrt(recent.baseline / n),
                )
                yield _each(
                    "coverage", "Share of about the last 1,000 rows inside", targets, recent.covered / n
                )
                yield _each("interval_width", "Mean width of these intervals", targets, recent.width / n)
        if watched.fitted:
            yield from self._model(targets)

    def _model(self, targets: Sequence[str]) -> Iterator[Metric]:
        gp = self._watched.gp
        for name, value, text in (
            ("rank", gp.rank_, "Features in use"),
            ("trace_error_share", gp.trace_error_share_, "Share of tr K that the approximation leaves out"),
            ("tuning_seconds", gp.tuning_seconds_, "Time spent tuning"),
        ):
            yield GaugeMetricFamily(f"streamgp_{name}", text, value=float(value))
        yield _each("noise", "Noise variance of standardised targets", targets, np.ravel(gp.noise_))
        weights = GaugeMetricFamily(
            "streamgp_member_weight", "Weight in the mean", labels=("member", "target")
        )
        for member, values in gp.members_.items():
            for target, value in zip(targets, np.ravel(values), strict=True):
                weights.add_metric((member, target), float(value))
        yield weights


def _each(name: str, text: str, targets: Sequence[str], values: np.ndarray) -> GaugeMetricFamily:
    """Return a metric with a value for each target."""
    family = GaugeMetricFamily(f"streamgp_{name}", text, labels=("target",))
    for target, value in zip(targets, values, strict=True):
        family.add_metric((target,), float(value))
    return family
