"""When to start a dead process again: a pure function of its failures in a row."""

from __future__ import annotations

from dataclasses import dataclass

STABLE_AFTER_S = 10.0
"""A process that was ready for this long has earned a fresh start: the failures before it no longer count."""


@dataclass(frozen=True)
class Backoff:
    """Exponential: `first_s`, doubled at each failure in a row, at most `longest_s`."""

    first_s: float
    longest_s: float

    def delay_s(self, failures: int) -> float:
        """Return the wait before the next start, after `failures` >= 1 in a row."""
        return min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 32))


def failures_after_exit(failures: int, ready_for_s: float) -> int:
    """Return the new count of failures in a row for a process that was ready for `ready_for_s` (0: never)."""
    return 1 if ready_for_s >= STABLE_AFTER_S else failures + 1
