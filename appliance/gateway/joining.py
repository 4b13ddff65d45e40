"""Requests that are the same run once: the same body from the same key while the first is on its way, and the same
Idempotency-Key while it is and for a while after.

With an Idempotency-Key a broken connection costs nothing: the run goes on without its caller, and whoever comes back
with the key gets its answer. Without one, work whose caller is gone is not run.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import NamedTuple

from appliance.errors import ApplianceError, DeadlineExceeded, IdempotencyMismatch, Overloaded, Unavailable
from appliance.gateway.asking import Answer, Asker, Question

_KEPT_S = 30.0
_KEPT_BYTES = 32 << 20
_PASSING = (Overloaded, Unavailable, DeadlineExceeded)
"""Errors of the moment: whoever tries again wants a new run, not the old refusal."""

Name = tuple[str, str, str, bytes]
"""Whose, in which class, which operation, and what was asked."""


class Run:
    """A request on its way that others have joined, or may."""

    __slots__ = ("_followers",)

    def __init__(self) -> None:
        self._followers: asyncio.Future[Answer | None] | None = None

    def end(self, answer: Answer | None, error: ApplianceError | None = None) -> None:
        """Tell the followers; None for both where the run ended for reasons that were its first caller's own."""
        if self._followers is None or self._followers.done():
            return
        if error is not None:
            self._followers.set_exception(error)
        else:
            self._followers.set_result(answer)

    def join(self) -> asyncio.Future[Answer | None]:
        """Return what to wait for. There at once: the run may end before a caller who joins is on again."""
        if self._followers is None:
            self._followers = asyncio.get_running_loop().create_future()
        return asyncio.shield(self._followers)


class Kept(NamedTuple):
    """A run under an Idempotency-Key."""

    question: bytes
    task: asyncio.Task[Answer]
    keep_until: float


class Joining:
    """In front of the Asker. `joined` counts the requests that did not need a run of their own."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._runs: dict[Name, Run] = {}
        self._once: OrderedDict[tuple[str, str], Kept] = OrderedDict()
        self._kept_bytes = 0
        self.joined = 0

    async def ask(self, question: Question) -> Answer:
        """Return the answer of the question's run, be it its own or another's. Raises as Asker.ask does."""
        terms = question.terms
        if terms.once:
            return await self._ask_once(question)
        name = (terms.key, terms.klass, question.operation, terms.body)
        run = self._runs.get(name)
        return await (self._lead(name, question) if run is None else self._follow(name, run, question))

    async def _lead(self, name: Name, question: Question) -> Answer:
        run = self._runs[name] = Run()
        answer: Answer | None = None
        failed: ApplianceError | None = None
        try:
            answer = await self._asker.ask(question)
            return answer
        except DeadlineExceeded:
            raise  # the followers may have more time
        except ApplianceError as exc:
            failed = exc
            raise
        finally:
            if self._runs.get(name) is run:
                del self._runs[name]
            run.end(answer, failed)

    async def _follow(self, name: Name, run: Run, question: Question) -> Answer:
        """Wait for another's run; take its place where it went away."""
        terms = question.terms
        give_up_at = time.monotonic() + terms.timeout_s
        while True:
            left_s = give_up_at - time.monotonic()
            try:
                answer = await asyncio.wait_for(run.join(), left_s)
            except asyncio.TimeoutError:
                raise DeadlineExceeded(
                    f"No answer within {terms.timeout_s:g} s, the time that the request allowed."
                ) from None
            if answer is not None:
                self.joined += 1
                return answer
            next_run = self._runs.get(name)
            if next_run is None:
                left_s = max(0.001, give_up_at - time.monotonic())
                return await self._lead(name, question._replace(terms=terms._replace(timeout_s=left_s)))
            run = next_run

    async def _ask_once(self, question: Question) -> Answer:
        terms = question.terms
        self._forget(time.monotonic())
        name = (terms.key, terms.once)
        kept = self._once.get(name)
        if kept is None:
            task = asyncio.create_task(self._asker.ask(question))
            kept = Kept(terms.body, task, time.monotonic() + terms.timeout_s + _KEPT_S)
            self._keep(name, kept)
        elif kept.question != terms.body:
            raise IdempotencyMismatch(
                "This Idempotency-Key came with another body before. Use a new key for a new request."
            )
        else:
            self.joined += 1
        return await asyncio.shield(kept.task)

    def _keep(self, name: tuple[str, str], kept: Kept) -> None:
        self._once[name] = kept
        self._kept_bytes += len(kept.question)
        kept.task.add_done_callback(lambda task: self._on_end(name, kept))

    def _on_end(self, name: tuple[str, str], kept: Kept) -> None:
        if self._once.get(name) is not kept:
            return
        if kept.task.cancelled() or isinstance(kept.task.exception(), _PASSING):
            self._drop(name)
        else:
            self._kept_bytes += _size(kept.task)
            self._once[name] = kept._replace(keep_until=time.monotonic() + _KEPT_S)
            self._once.move_to_end(name)

    def _forget(self, now: float) -> None:
        """Drop what was kept for long enough, and the oldest where they are too much together."""
        for name, kept in list(self._once.items()):
            if kept.keep_until > now and self._kept_bytes <= _KEPT_BYTES:
                return
            if kept.task.done():
                self._drop(name)

    def _drop(self, name: tuple[str, str]) -> None:
        kept = self._once.pop(name)
        self._kept_bytes -= len(kept.question) + _size(kept.task)


def _size(task: asyncio.Task[Answer]) -> int:
    if not task.done() or task.cancelled() or task.exception() is not None:
        return 0
    return sum(map(len, task.result().outputs))
