"""python -m bench.soak: hours of everything at once, and memory and descriptors that must stay where they are.

`--minutes 20` is the form that a change is shown with, `--minutes 1440` a day. Exit status 1 where something grew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import psutil

from bench.appliance_under_test import ApplianceUnderTest, make_data, make_fake_model
from bench.crowds import Caller, session
from bench.measure import MeasureError
from bench.texts import MIXED, SHORT, texts

_SAMPLE_S = 5.0
_MOST_GROWTH = 0.02
_STEADY = ("daemon", "gateway", "worker", "nats-server")
_SCRIPT = '\n[fake]\na_ms = 5.0\nb_ms_per_token = 0.05\nfail_marker = "hemlock"\nfail_mode = "crash"\n'


@dataclass
class Soak:
    """The callers' side: what they ask, for how long, and what came of it."""

    appliance: ApplianceUnderTest
    end: float
    outcomes: Counter[str] = field(default_factory=Counter)
    _dice: random.Random = field(default_factory=lambda: random.Random(1))

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    async def run(self) -> None:
        async with session() as one:
            await asyncio.gather(
                *(
                    self._again(self._person, Caller(self.appliance, one, Authorization=f"Bearer {n}"))
                    for n in range(8)
                ),
                *(self._again(self._import, Caller(self.appliance, one, X_Work_Class="bulk")) for _ in range(2)),
                self._again(self._hurried, Caller(self.appliance, one)),
                self._again(self._twice, Caller(self.appliance, one)),
                self._again(self._poison, Caller(self.appliance, one)),
                self._again(self._nonsense, Caller(self.appliance, one)),
                self._again(self._hangs_up, Caller(self.appliance, one)),
            )

    async def _again(self, what: Callable[[Caller], Awaitable[None]], caller: Caller) -> None:
        while not self.is_over:
            try:
                await what(caller)
            except aiohttp.ClientError as exc:
                self.outcomes[f"broken: {type(exc).__name__}"] += 1

    async def _ask(self, caller: Caller, given: object, **headers: str) -> None:
        reply = await caller.ask(given, **headers)
        self.outcomes[str(reply.status)] += 1

    async def _person(self, caller: Caller) -> None:
        await self._ask(caller, self._text(False))
        await asyncio.sleep(self._dice.uniform(0.0, 0.2))

    async def _import(self, caller: Caller) -> None:
        await self._ask(caller, [self._text(True) for _ in range(self._dice.randint(1, 100))])

    async def _hurried(self, caller: Caller) -> None:
        await asyncio.gather(*(self._ask(caller, self._text(False), X_Request_Timeout="0.01") for _ in range(20)))
        await asyncio.sleep(1)

    async def _twice(self, caller: Caller) -> None:
        """The same at once, and again under one Idempotency-Key."""
        text, once = self._text(False), f"once-{self._dice.random()}"
        await asyncio.gather(*(self._ask(caller, text) for _ in range(3)))
        for _ in range(2):
            await self._ask(caller, text, Idempotency_Key=once)
        await asyncio.sleep(0.5)

    async def _poison(self, caller: Caller) -> None:
        await self._ask(caller, f"{self._text(False)} hemlock")
        await asyncio.sleep(20)

    async def _nonsense(self, caller: Caller) -> None:
        nonsense: tuple[object, ...] = ({}, [], [1, "a"], -1, None, ["x"] * 3000, [[-1]], "x " * 5000)
        for given in nonsense:
            await self._ask(caller, given)
        await asyncio.sleep(1)

    async def _hangs_up(self, caller: Caller) -> None:
        leaving = [asyncio.ensure_future(caller.ask(self._text(True))) for _ in range(20)]
        await asyncio.sleep(0.02)
        for one in leaving:
            one.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        self.outcomes["hung up"] += len(leaving)
        await asyncio.sleep(1)

    def _text(self, is_long: bool) -> str:
        (text,) = texts(MIXED if is_long else SHORT, self._dice.getrandbits(40), 1)
        return text


@dataclass(frozen=True)
class Sample:
    at: float
    rss_mib: float
    descriptors: int


async def _watch(appliance: ApplianceUnderTest, soak: Soak) -> dict[str, list[Sample]]:
    """Sample every steady process until the load is over."""
    members = {role: group[0] for role, group in appliance.processes().items() if role in _STEADY}
    seen: dict[str, list[Sample]] = {role: [] for role in members}
    start = time.monotonic()
    while not soak.is_over:
        await asyncio.sleep(_SAMPLE_S)
        now = time.monotonic() - start
        for role, one in members.items():
            try:
                seen[role].append(Sample(now, one.memory_info().rss / 2**20, one.num_fds()))
            except psutil.NoSuchProcess:
                raise MeasureError(f"The {role} that was there at the start is gone after {now:.0f} s.") from None
        if sys.stderr.isatty():
            text = "  ".join(f"{role} {samples[-1].rss_mib:.1f}" for role, samples in seen.items())
            print(f"\r{now / 60:6.1f} min  {text} MiB ", end="", file=sys.stderr, flush=True)
    return seen


def growth_mib(samples: list[Sample]) -> float:
    """Return by how much the memory rose over the last half: the mean of its last third less that of its first."""
    half = samples[len(samples) // 2 :]
    third = max(1, len(half) // 3)
    first, last = half[:third], half[-third:]
    return sum(one.rss_mib for one in last) / third - sum(one.rss_mib for one in first) / third


def verdict(seen: dict[str, list[Sample]]) -> list[str]:
    """Return a sentence for each process that grew."""
    problems = []
    for role, samples in seen.items():
        rose, level = growth_mib(samples), samples[len(samples) // 2].rss_mib
        if rose > _MOST_GROWTH * level:
            problems.append(f"{role} grew by {rose:.1f} MiB of {level:.1f} in the last half.")
        half = [one.descriptors for one in samples[len(samples) // 2 :]]
        if min(half[-max(1, len(half) // 3) :]) > max(half[: max(1, len(half) // 3)]):
            problems.append(f"{role} has {half[-1]} descriptors open, {half[0]} half-way.")
    return problems


async def _soak(appliance: ApplianceUnderTest, minutes: float) -> tuple[Soak, dict[str, list[Sample]]]:
    soak = Soak(appliance, time.monotonic() + minutes * 60)
    _, seen = await asyncio.gather(soak.run(), _watch(appliance, soak))
    return soak, seen


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="how long (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="write every sample to this JSON file")
    arguments = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="appliance-soak-") as name:
            scratch = Path(name)
            data = make_data(
                scratch / "data", make_fake_model(scratch / "fake", _SCRIPT), '[worker]\ndevices = ["virtual0"]\n'
            )
            with ApplianceUnderTest(data) as appliance:
                soak, seen = asyncio.run(_soak(appliance, arguments.minutes))
    except MeasureError as exc:
        print(f"soak: {exc}", file=sys.stderr)
        return 2
    for role, samples in seen.items():
        level = samples[len(samples) // 2].rss_mib
        rose = growth_mib(samples)
        print(
            f"{role:<12} {samples[0].rss_mib:6.1f} MiB at first, {level:6.1f} half-way, "
            f"{samples[-1].rss_mib:6.1f} last; "
            f"last half {rose:+.2f} MiB ({rose / level:+.2%}); descriptors {samples[0].descriptors} to "
            f"{samples[-1].descriptors}"
        )
    print(f"answers: {dict(soak.outcomes.most_common())}")
    if arguments.out is not None:
        arguments.out.write_text(json.dumps({role: [vars(one) for one in s] for role, s in seen.items()}, indent=1))
    problems = verdict(seen)
    print("\n".join(problems) or "Nothing grew.")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
