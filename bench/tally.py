"""What came back to a load generator in its measured window."""

from __future__ import annotations

from array import array


class Tally:
    """What came back while `is_counting`: latencies of the 200s in seconds, and how many others there were."""

    def __init__(self) -> None:
        self.is_counting = False
        self.is_over = False
        self.latencies_s = array("d")
        self.failures: dict[str, int] = {}

    def fail(self, why: str) -> None:
        self.failures[why] = self.failures.get(why, 0) + 1

    def summary(self, seconds: float) -> dict[str, object]:
        ordered = sorted(self.latencies_s)
        return {
            "requests": len(ordered),
            "per_second": len(ordered) / seconds,
            "p50_ms": _quantile_ms(ordered, 0.50),
            "p95_ms": _quantile_ms(ordered, 0.95),
            "p99_ms": _quantile_ms(ordered, 0.99),
            "failures": self.failures,
        }


def _quantile_ms(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3 if ordered else float("nan")
