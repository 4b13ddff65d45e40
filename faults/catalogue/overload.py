"""More than fits: turned away at once, and what was taken is answered."""

from __future__ import annotations

from faults.fault import Expect, Fault
from faults.mix import CROWD, FAKES, Guilty, Lane, Mix
from faults.scene import Scene

_MOST_ITEMS = 16


def _nothing(scene: Scene) -> None:
    """The load itself is the fault."""


FAULTS = (
    Fault(
        "overload",
        f"ten times more callers than a slow model's queue of {_MOST_ITEMS} holds; others are innocent",
        _nothing,
        times=1,
        mix=Mix(
            lanes=(*FAKES, Lane("yew", 0, 8, a_ms=100.0)),
            guilty=Guilty(CROWD, every=2, models=("yew",)),
            clients=10 * _MOST_ITEMS,
            pause_ms=20.0,
            lists=False,
        ),
        settings={"queue.max_items": _MOST_ITEMS, "worker.batch_items": 4},
        expect=Expect(may_shed=True),
    ),
)
