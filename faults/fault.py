"""What a fault is: what is done, under which load, and what must hold. Adding one is an entry in catalogue/."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from faults.mix import Mix
from faults.oracle import INNOCENT, Verdict

if TYPE_CHECKING:
    from faults.scene import Scene

Act = Callable[["Scene"], None]


@dataclass(frozen=True)
class Expect:
    """What must hold beside "lost nothing, answered nothing twice or wrong", which holds for every fault.

    `errors` are the codes that innocents may get, none: every one of them is answered. `guilty` are those that the
    others may get; `guilty_fail`: and never an answer. `gap_s` is the longest outage, `p99_s` the innocents' slowest
    hundredth; `put_off` the part of those who come back as they were told that may be turned away again.
    """

    gap_s: float | None = None
    errors: frozenset[str] = frozenset()
    guilty: frozenset[str] = frozenset()
    guilty_fail: bool = False
    may_shed: bool = False
    p99_s: float | None = None
    put_off: float | None = None


@dataclass(frozen=True)
class Fault:
    """`act` runs while the load does, and does it `times` times; `prepare` runs before the first start.

    `settings` are the appliance's, by "section.key". `keeps_real` says that the short form needs the real model, too;
    `in_short` that there is one: a fault that is much like another has none.
    """

    name: str
    what: str
    act: Act
    times: int = 10
    requests: int = 5000
    mix: Mix = field(default_factory=Mix)
    settings: Mapping[str, object] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    expect: Expect = field(default_factory=Expect)
    prepare: Act | None = None
    keeps_real: bool = False
    in_short: bool = True


def problems(expect: Expect, verdict: Verdict, is_timed: bool = True) -> list[str]:
    """Return a sentence for each thing that does not hold; without times where the machine has no time for them."""
    found = [
        f"{count} {what}"
        for what, count in (("lost", verdict.lost), ("answered twice", verdict.twice), ("wrong", verdict.wrong))
        if count
    ]
    for role, codes in verdict.errors.items():
        allowed = expect.errors if role == INNOCENT else expect.guilty
        found += [f"{count} {role} got {code}" for code, count in sorted(codes.items()) if code not in allowed]
    if is_timed and expect.gap_s is not None and verdict.gap_s >= expect.gap_s:
        found.append(f"a gap of {verdict.gap_s:.2f} s, {expect.gap_s:g} s are allowed")
    if is_timed and expect.p99_s is not None and not verdict.p99_s <= expect.p99_s:
        found.append(f"a p99 of {verdict.p99_s:.2f} s for innocents, {expect.p99_s:g} s are allowed")
    if expect.put_off is not None and verdict.put_off > expect.put_off * verdict.came_back:
        found.append(f"{verdict.put_off} of {verdict.came_back} came back as told and were turned away again")
    if verdict.shed and not expect.may_shed:
        found.append(f"{verdict.shed} turned away")
    guilty_answered = verdict.answered - verdict.innocents_answered
    if expect.guilty_fail and guilty_answered:
        found.append(f"{guilty_answered} guilty ones were answered")
    if not verdict.innocents_answered:
        found.append("nobody was answered at all")
    return found
