"""One request's way through the queue: inputs cut into items, items submitted, results gathered under one deadline."""

from __future__ import annotations

import asyncio
import itertools
import math
from typing import NamedTuple

from appliance.config import Queue
from appliance.errors import ApplianceError, DeadlineExceeded, Overloaded
from appliance.gateway.admission import Admission
from appliance.gateway.terms import Terms
from appliance.metrics import LANES
from appliance.models.catalog import Model
from appliance.wire import subjects
from appliance.wire.items import Options, WorkItem, WorkResult, cost_of
from appliance.workqueue.held import Held
from appliance.workqueue.publisher import Publisher

Input = str | list[int]


class Question(NamedTuple):
    """What one request asks of one model. `terms` are its caller's."""

    model: Model
    operation: str
    options: Options
    inputs: list[Input]
    terms: Terms
    truncate: bool = False


class Answer(NamedTuple):
    """Per input, in order: its output and its token count. `truncated` lists the inputs that were cut."""

    outputs: list[bytes]
    tokens: list[int]
    truncated: list[int]


class Asker:
    """Asks questions through the queue. `answered_at` is the loop's time of the last good answer."""

    def __init__(self, publisher: Publisher, admission: Admission, queue: Queue, gateway_id: str) -> None:
        self._publisher = publisher
        self._admission = admission
        self._queue = queue
        self._gateway_id = gateway_id
        self._numbers = itertools.count(1)
        self.answered_at = -math.inf

    async def ask(self, question: Question) -> Answer:
        """Return the answer, or raise the error of the first input that failed; its `param` names the input.

        Cancelled when the caller hangs up; what is still held then is abandoned.
        """
        terms = question.terms
        lane = subjects.lane(question.model.name, terms.klass)
        chunks = cut(question.inputs, self._queue.item_tokens, self._queue.item_inputs)
        total = sum([chunk.cost for chunk in chunks])
        try:
            self._admission.admit(lane, terms.klass, terms.key, total, terms.timeout_s, terms.body)
        except Overloaded:
            LANES.count("shed", question.model.name, terms.klass)
            raise
        request_number = next(self._numbers)
        starts = [chunk.start for chunk in chunks]
        held: list[Held] = []
        timer = asyncio.get_running_loop().call_later(terms.timeout_s, self._expire, held, question)
        try:
            for chunk in chunks:
                held.append(self._publisher.submit(lane, terms.key, self._item(question, request_number, chunk)))
            results = [_checked(await one.answer, question, start) for one, start in zip(held, starts, strict=True)]
        finally:
            timer.cancel()
            for one in held:
                self._publisher.abandon(one)  # does nothing for an item that is answered
                if one.answer.done() and not one.answer.cancelled():
                    one.answer.exception()  # seen: only the first error is told
        self.answered_at = asyncio.get_running_loop().time()
        return _joined(results, starts)

    def _item(self, question: Question, number: int, chunk: Chunk) -> WorkItem:
        return WorkItem(
            item_id=f"{self._gateway_id}.{number}.{chunk.start}",
            gateway_id=self._gateway_id,
            model_id=question.model.name,
            operation=question.operation,
            options=question.options,
            lora="",
            inputs=chunk.inputs,
            truncate=question.truncate,
            remaining_ms=int(question.terms.timeout_s * 1000),
            cost=chunk.cost,
            klass=question.terms.klass,
        )

    def _expire(self, held: list[Held], question: Question) -> None:
        terms = question.terms
        LANES.count("expired", question.model.name, terms.klass)
        error = DeadlineExceeded(f"No answer within {terms.timeout_s:g} s, the time that the request allowed.")
        for one in held:
            if not one.answer.done():
                one.answer.set_exception(error)


class Chunk(NamedTuple):
    """Inputs that travel as one item: where they start in the request, and what they cost together."""

    start: int
    inputs: list[Input]
    cost: int


def cut(inputs: list[Input], item_tokens: int, item_inputs: int) -> list[Chunk]:
    """Cut a list into chunks of about `item_tokens` and at most `item_inputs` inputs."""
    if len(inputs) == 1:  # as in most requests
        return [Chunk(0, inputs, cost_of(inputs[0]))]
    chunks: list[Chunk] = []
    start, cost = 0, 0
    for index, one in enumerate(inputs):
        size = cost_of(one)
        if index > start and (index - start == item_inputs or cost + size > item_tokens):
            chunks.append(Chunk(start, inputs[start:index], cost))
            start, cost = index, 0
        cost += size
    chunks.append(Chunk(start, inputs[start:], cost))
    return chunks


def _checked(result: WorkResult, question: Question, start: int) -> WorkResult:
    """Return a good result; raise its error, or one for an answer that came from another model's content."""
    error = result.error()
    if error is not None:
        if result.failed_input >= 0:
            error.param = f"input[{start + result.failed_input}]" if len(question.inputs) > 1 else "input"
        raise error
    if result.content_hash != question.model.content_hash:
        raise ApplianceError("The model was replaced while the request ran. Send it again.")
    return result


def _joined(results: list[WorkResult], starts: list[int]) -> Answer:
    if len(results) == 1:
        return Answer(results[0].outputs, results[0].tokens, results[0].truncated)
    return Answer(
        [output for result in results for output in result.outputs],
        [count for result in results for count in result.tokens],
        [start + index for result, start in zip(results, starts, strict=True) for index in result.truncated],
    )
