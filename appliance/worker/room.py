"""Who makes room for a model that is wanted: pure functions of who is there.

A load must be paid back by the work that waits for it. So a tenant stays for a while, those that were used longest ago
go first, and one with work of its own goes only for somebody who has waited longer than the loads take.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LEAST_STAY_S = 1.0
"""A tenant stays at least this long, and twice its load."""
_LOADS = 2.0


@dataclass(frozen=True)
class Tenant:
    """A model in memory. Times are in seconds; `unused_s` is 0.0 while it has work."""

    name: str
    memory_bytes: int
    load_s: float
    stayed_s: float
    unused_s: float
    is_pinned: bool = False

    @property
    def may_go(self) -> bool:
        return not self.is_pinned and self.stayed_s >= max(LEAST_STAY_S, _LOADS * self.load_s)


def evicted(tenants: Iterable[Tenant], missing_bytes: float, waited_s: float, load_s: float) -> list[str] | None:
    """Return the names of those who go, so that `missing_bytes` become free; None where that must wait, or cannot be.

    `waited_s` is for how long the newcomer's oldest work has waited, `load_s` what its load takes (0.0: not known).
    """
    going: list[str] = []
    for tenant in sorted(tenants, key=lambda tenant: -tenant.unused_s):
        if missing_bytes <= 0:
            break
        is_worth_it = tenant.unused_s > tenant.load_s or waited_s >= _LOADS * (load_s + tenant.load_s)
        if tenant.may_go and is_worth_it:
            going.append(tenant.name)
            missing_bytes -= tenant.memory_bytes
    return going if missing_bytes <= 0 else None
