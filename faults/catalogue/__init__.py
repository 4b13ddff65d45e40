"""All faults, in the order of the table. A family is a file."""

from __future__ import annotations

from faults.catalogue import clients, device, kills, lifecycle, overload, poison, queue, start, stops, store
from faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    *kills.FAULTS,
    *stops.FAULTS,
    *device.FAULTS,
    *poison.FAULTS,
    *queue.FAULTS,
    *store.FAULTS,
    *start.FAULTS,
    *lifecycle.FAULTS,
    *clients.FAULTS,
    *overload.FAULTS,
)
