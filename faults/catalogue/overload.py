"""More than fits: turned away with a time that comes true; what was taken is answered, and others do not notice."""

from __future__ import annotations

from faults.fault import Expect, Fault
from faults.mix import CROWD, FAKES, Guilty, Lane, Mix
from faults.scene import Scene

_MOST_ITEMS = 16
_CROWD = 160
_TEN_TIMES = 400
"""For 40 inputs a second: ten seconds of work where two are let in."""

_SLOW = Lane("yew", 0.5, 8, a_ms=40.0)
_NARROW = {"worker.batch_items": 4, "worker.streams": 1}
"""A device that does 100 of the slow model's inputs a second."""


def _nothing(scene: Scene) -> None:
    """The load itself is the fault."""


FAULTS = (
    Fault(
        "lane-full",
        f"ten times more callers than a slow model's lane of {_MOST_ITEMS} items takes",
        _nothing,
        times=1,
        mix=Mix(
            lanes=(*FAKES, Lane("yew", 0, 8, a_ms=40.0)),
            guilty=Guilty(CROWD, models=("yew",), loops=_CROWD),
            lists=False,
        ),
        settings={**_NARROW, "queue.max_items": _MOST_ITEMS},
        expect=Expect(may_shed=True),
        in_short=False,
    ),
    Fault(
        "overload",
        f"{_TEN_TIMES} callers of a model whose queue may be 2 s long; they come back when they are told to",
        _nothing,
        times=1,
        mix=Mix(
            lanes=(*FAKES, Lane("yew", 0, 8, a_ms=100.0)),
            guilty=Guilty(CROWD, models=("yew",), loops=_TEN_TIMES, deadline_s=20.0),
            comes_back=True,
            lists=False,
        ),
        settings={**_NARROW, "queue.longest_wait_s": 2.0},
        expect=Expect(may_shed=True, put_off=0.1),
    ),
    Fault(
        "greedy-key",
        "one key floods a model with bulk work while others ask it interactively",
        _nothing,
        times=1,
        mix=Mix(lanes=(*FAKES, _SLOW), guilty=Guilty(CROWD, models=("yew",), loops=64, klass="bulk"), lists=False),
        settings=_NARROW,
        expect=Expect(may_shed=True, p99_s=1.0),
    ),
    Fault(
        "greedy-key-interactive",
        "one key floods a model with interactive work while others ask it, too",
        _nothing,
        times=1,
        mix=Mix(lanes=(*FAKES, _SLOW), guilty=Guilty(CROWD, models=("yew",), loops=64), lists=False),
        settings=_NARROW,
        expect=Expect(may_shed=True, p99_s=1.0),
        in_short=False,
    ),
)
