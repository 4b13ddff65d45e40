"""Prometheus metrics of one gateway, and of the workers as their heartbeats tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

REGISTRY = CollectorRegistry()

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)

_requests = Counter("appliance_requests", "HTTP requests by route and status.", ("route", "status"), registry=REGISTRY)
_seconds = Histogram("appliance_request_seconds", "Time to answer.", ("route",), buckets=_BUCKETS, registry=REGISTRY)
_inputs = Counter("appliance_inputs", "Inputs answered, by model.", ("model",), registry=REGISTRY)
_tokens = Counter("appliance_tokens", "Tokens answered for, by model.", ("model",), registry=REGISTRY)


def request_done(route: str, status: int, duration_s: float, model: str, inputs: int, tokens: int) -> None:
    """Count one finished request. `route` and `model` are of our choosing, never a client's text."""
    _requests_of(route, status).inc()
    _seconds_of(route).observe(duration_s)
    if model:
        _inputs_of(model).inc(inputs)
        _tokens_of(model).inc(tokens)


# labels() checks and locks at each call; what it returns never changes.
_requests_of, _seconds_of = cache(_requests.labels), cache(_seconds.labels)
_inputs_of, _tokens_of = cache(_inputs.labels), cache(_tokens.labels)


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
