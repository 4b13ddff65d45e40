"""Prometheus metrics of one gateway, and of the workers as their heartbeats tell."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

REGISTRY = CollectorRegistry()

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)


class Requests(Collector):
    """What this gateway has answered: plain numbers, turned into Prometheus' families when somebody scrapes.

    The library's own counters check, lock and look up at each call: a fortieth of a small request's time.
    `route` and `model` are of our choosing, never a client's text.
    """

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._inputs: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._seconds: dict[str, _Histogram] = defaultdict(_Histogram)

    def done(self, route: str, status: int, duration_s: float, model: str, inputs: int, tokens: int) -> None:
        """Count one finished request."""
        self._requests[route, status] += 1
        seconds = self._seconds[route]
        seconds.counts[bisect_left(_BUCKETS, duration_s)] += 1
        seconds.sum += duration_s
        if model:
            self._inputs[model] += inputs
            self._tokens[model] += tokens

    def collect(self) -> Iterable[Metric]:
        """Yield appliance_requests, appliance_request_seconds, appliance_inputs and appliance_tokens."""
        requests = CounterMetricFamily("appliance_requests", "HTTP requests by route and status.", None, _BY_STATUS)
        for (route, status), count in self._requests.items():
            requests.add_metric([route, str(status)], count)
        yield requests
        seconds = HistogramMetricFamily("appliance_request_seconds", "Time to answer.", labels=["route"])
        for route, histogram in self._seconds.items():
            seconds.add_metric([route], histogram.buckets(), histogram.sum)
        yield seconds
        yield _by_model("appliance_inputs", "Inputs answered, by model.", self._inputs)
        yield _by_model("appliance_tokens", "Tokens answered for, by model.", self._tokens)


_BY_STATUS = ["route", "status"]


@dataclass(slots=True)
class _Histogram:
    """How many fell into each bucket, the last for all above."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(_BUCKETS) + 1))
    sum: float = 0.0

    def buckets(self) -> list[tuple[str, float]]:
        """Return (upper bound, how many up to it), as Prometheus wants them."""
        bounds = [*map(str, map(float, _BUCKETS)), "+Inf"]
        return list(zip(bounds, accumulate(self.counts), strict=True))


def _by_model(name: str, text: str, counts: Mapping[str, int]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=["model"])
    for model, count in counts.items():
        family.add_metric([model], count)
    return family


REQUESTS = Requests()
REGISTRY.register(REQUESTS)


class WorkerCollector(Collector):
    """Gauges and counters from the latest heartbeats, read when somebody scrapes."""

    def __init__(self, counters: Callable[[], Iterable[tuple[str, Mapping[str, float], int]]]) -> None:
        self._counters = counters

    def collect(self) -> Iterable[Metric]:
        """Yield one family per counter that workers report, labelled by worker."""
        held = GaugeMetricFamily("appliance_worker_held_items", "Items leased by the worker.", labels=("worker",))
        families: dict[str, CounterMetricFamily] = {}
        for worker_id, counters, held_items in self._counters():
            held.add_metric([worker_id], held_items)
            for name, value in counters.items():
                family = families.get(name)
                if family is None:
                    family = families[name] = CounterMetricFamily(
                        f"appliance_worker_{name}", f"The worker's count of {name}.", labels=("worker",)
                    )
                family.add_metric([worker_id], value)
        yield held
        yield from families.values()


def exposition() -> bytes:
    """Return everything in Prometheus' text format."""
    return generate_latest(REGISTRY)
