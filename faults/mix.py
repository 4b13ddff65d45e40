"""What the load asks: a seeded mixture, the same requests for the same seed on every machine."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench.texts import WORDS
from faults.oracle import INNOCENT

REAL = "all-MiniLM-L6-v2"
POISON, GONE, IMPATIENT, CROWD = "poison", "gone", "impatient", "crowd"
MARKER = "cyanide"
"""The word at which a fake model that has a way to fail fails."""


@dataclass(frozen=True)
class Lane:
    """A model and its share of the load. `dimensions` tells fake models apart by their answers; 0: the real one.

    `fail_mode` is what it does at the marker; `a_ms` is what a batch takes.
    """

    name: str
    share: float
    dimensions: int = 0
    a_ms: float = 1.0
    fail_mode: str = ""


@dataclass(frozen=True)
class Guilty:
    """Every `every`th request plays `role`, on the models named (all, where none is), at most `most` of them.

    With `loops`, so many clients beside the others do nothing else. `deadline_s` is its own;
    `hang_up_s` the longest time after which it hangs up, 0: never; `klass` the class of its work.
    """

    role: str
    every: int = 0
    models: tuple[str, ...] = ()
    most: int = 10**9
    deadline_s: float = 30.0
    hang_up_s: float = 0.0
    loops: int = 0
    klass: str = ""


FAKES = (Lane("oak", 4, 8), Lane("elm", 2, 12), Lane("ash", 1, 16, a_ms=4.0))
ORDINARY = (*FAKES, Lane(REAL, 0.4))


@dataclass(frozen=True)
class Mix:
    """`clients` closed loops, each pausing `pause_ms` on average. `keeps` says whether connections are used again.

    `retries_unavailable` is for faults that restart the whole appliance: a 503 is tried again a little later.
    `comes_back`: who is turned away comes again when it was told to.
    """

    lanes: tuple[Lane, ...] = ORDINARY
    guilty: Guilty | None = None
    clients: int = 24
    pause_ms: float = 8.0
    deadline_s: tuple[float, float] = (20.0, 40.0)
    keeps: bool = True
    retries_unavailable: bool = False
    comes_back: bool = False
    lists: bool = True

    def without_real(self) -> Mix:
        return replace(self, lanes=tuple(lane for lane in self.lanes if lane.dimensions))

    def with_at_most(self, guilty: int) -> Mix:
        """Return the mix with no more poison than this; crowds stay."""
        if self.guilty is None or self.guilty.role != POISON:
            return self
        return replace(self, guilty=replace(self.guilty, most=min(guilty, self.guilty.most)))


@dataclass(frozen=True)
class Asked:
    """One request: who asks what, and how long it waits."""

    lane: Lane
    role: str
    texts: list[str]
    deadline_s: float
    pause_s: float
    hang_up_s: float = 0.0
    klass: str = ""


def requests(mix: Mix, seed: str, golden_texts: list[str], is_guilty: bool = False) -> Iterator[Asked]:
    """Yield one client's requests without end; all of them guilty, or as the mix says."""
    chance = random.Random(seed)
    shares = [lane.share for lane in mix.lanes]
    every = 1 if is_guilty else mix.guilty.every if mix.guilty else 0
    number = chance.randrange(every) if every else 0  # else all clients would do it at once
    while True:
        lane = chance.choices(mix.lanes, shares)[0]
        number += 1
        asked = Asked(
            lane,
            INNOCENT,
            _texts(chance, lane, golden_texts, mix.lists),
            chance.uniform(*mix.deadline_s),
            min(chance.expovariate(1.0), 5.0) * mix.pause_ms / 1e3,
        )
        if mix.guilty is not None and every and number % every == 0:
            asked = _made_guilty(chance, asked, mix, mix.guilty)
        yield asked


def _texts(chance: random.Random, lane: Lane, golden_texts: list[str], lists: bool) -> list[str]:
    count = chance.choices((1, chance.randint(2, 6), chance.randint(20, 70)), (16, 3, 1))[0] if lists else 1
    if not lane.dimensions:
        return chance.choices(golden_texts, k=min(count, 3))
    return [" ".join(chance.choices(WORDS, k=chance.randint(1, 12))) for _ in range(count)]


def _made_guilty(chance: random.Random, asked: Asked, mix: Mix, guilty: Guilty) -> Asked:
    if guilty.models:
        lane = next(lane for lane in mix.lanes if lane.name == chance.choice(guilty.models))
        asked = replace(asked, lane=lane, texts=_texts(chance, lane, [], mix.lists))
    if guilty.role == POISON:
        texts = list(asked.texts)
        texts[chance.randrange(len(texts))] += f" {MARKER} {chance.random()}"
        asked = replace(asked, texts=texts)
    return replace(
        asked,
        role=guilty.role,
        deadline_s=guilty.deadline_s,
        hang_up_s=chance.uniform(0.0, guilty.hang_up_s) if guilty.hang_up_s else 0.0,
        klass=guilty.klass,
    )
