"""The worlds in which pulling and pushing are compared, and the policies. Times are in seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bench.routers import ROUTERS
from bench.simulation import World

STALE_S = 0.25
PULL = "pull"
DEVICES = (4, 8)
P99_S = 0.5
"""Within which 99 of 100 are answered at a rate that is called sustained."""


@dataclass(frozen=True)
class Case:
    """One row of the table: a world, and what is asked of it: `clients` in closed loops, or `rate` a second."""

    name: str
    world: World


@dataclass(frozen=True)
class Policy:
    """Pulling, or a router and how old its knowledge may get."""

    name: str
    router: str = ""
    stale_s: float = 0.0


def policies() -> list[Policy]:
    """Return pulling first, then every router, fresh and stale."""
    found = [Policy(PULL)]
    for router in ROUTERS:
        found += [Policy(router, router), Policy(f"{router}, stale", router, STALE_S)]
    return found


def even(devices: int, clients: int = 0, rate: float = 0.0) -> World:
    """Return a world of devices that are all the same."""
    return World((1.0,) * devices, clients, rate)


def cases() -> Iterator[Case]:
    for devices in DEVICES:
        for clients in (256, 512):
            yield Case(f"a: {devices} devices, {clients} clients", even(devices, clients))
    for devices in DEVICES:
        slow = World((*(1.0,) * (devices - 1), 3.0), 256)
        yield Case(f"b: {devices} devices, one slow, 256 clients", slow)
    for devices in DEVICES:
        yield Case(f"c: {devices} devices, room for 5, 256 clients", replace(even(devices, 256), room=5))
    for devices in DEVICES:
        for share in (0.60, 0.80, 0.95):
            world = even(devices)
            yield Case(f"d: {devices} devices, {share:.0%} of capacity", replace(world, rate=share * world.capacity))


def sustained_name(devices: int) -> str:
    return f"d: {devices} devices, sustained at a p99 of {P99_S:g} s"


def chosen(every: Sequence[Case], wanted: Sequence[str]) -> list[Case]:
    """Return the cases whose names begin with one of `wanted`; all where nothing is wanted."""
    return [case for case in every if not wanted or any(case.name.startswith(one) for one in wanted)]
