"""Inputs at which a model fails: only their own callers may notice."""

from __future__ import annotations

from faults.fault import Expect, Fault
from faults.mix import ORDINARY, POISON, Guilty, Lane, Mix
from faults.scene import Scene

_QUARANTINED = frozenset({"quarantined"})


def _nothing(scene: Scene) -> None:
    """The load itself is the fault."""


def _poisoned(fail_mode: str, most: int) -> Mix:
    """Poison among innocents of the same model, and so in the same batches."""
    every = 150 if most == 1 else 20
    return Mix(
        lanes=(*ORDINARY, Lane("yew", 3, 8, a_ms=3.0, fail_mode=fail_mode)),
        guilty=Guilty(POISON, every=every, models=("yew",), most=most),
    )


def _fault(name: str, what: str, fail_mode: str, most: int, codes: frozenset[str] = _QUARANTINED) -> Fault:
    expect = Expect(guilty=codes, guilty_fail=True)
    mix = _poisoned(fail_mode, most)
    return Fault(name, what, _nothing, times=most, mix=mix, expect=expect, in_short=fail_mode != "nan")


FAULTS = (
    _fault("poison-one", "one input that crashes the engine", "crash", 1),
    _fault("poison-fifty", "fifty inputs that crash the engine", "crash", 50),
    _fault("poison-error-fifty", "fifty inputs on which the pass fails and the engine lives", "error", 50),
    _fault("poison-nan-fifty", "fifty inputs whose output is no number", "nan", 50, frozenset({"not_finite"})),
)
