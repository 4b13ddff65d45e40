"""Prometheus metrics of one gateway, and of the workers as their heartbeats tell."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import ClassVar

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


class Lanes(Collector):
    """What became of the items of each lane, a counter for each promise that is kept or broken."""

    MEANINGS: ClassVar = {
        "admitted": "Items let in at the door.",
        "answered": "Items whose results reached their caller, or the disk.",
        "failed": "Items that ended in a named error.",
        "shed": "Requests refused at the door because too much work waits.",
        "expired": "Requests whose time was over before their answer was there.",
        "abandoned": "Items whose caller went away.",
        "republished": "Items sent to the queue again, for want of a confirmation or after its restart.",
        "duplicated": "Answers that came for items already answered or given up; nobody saw them.",
        "rerun": "Inputs run again after the batch that they were in had failed.",
        "quarantined": "Items set aside because they failed again and again.",
        "dropped": "Items that a worker did not run: late, or their caller gone.",
    }

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self.elsewhere: Callable[[], Mapping[tuple[str, str, str], float]] = dict
        """What the workers have counted: the same keys."""

    def count(self, what: str, model: str, klass: str, number: int = 1) -> None:
        self._counts[what, model, klass] += number

    def collect(self) -> Iterable[Metric]:
        """Yield appliance_lane_<what> for each of MEANINGS."""
        families = {
            what: CounterMetricFamily(f"appliance_lane_{what}", text, labels=["model", "class"])
            for what, text in self.MEANINGS.items()
        }
        for (what, model, klass), number in sorted((self._counts + Counter(self.elsewhere())).items()):
            families[what].add_metric([model, klass], number)
        yield from families.values()


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


REQUESTS = Requests()
REGISTRY.register(REQUESTS)
LANES = Lanes()
REGISTRY.register(LANES)


def exposition() -> bytes:
    """Return everything in Prometheus' text format."""
    return generate_latest(REGISTRY)
