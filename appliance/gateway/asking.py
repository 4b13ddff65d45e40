"""One request's way through the queue: inputs cut into items, items submitted, results gathered under one deadline."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from appliance.config import Queue
from appliance.errors import ApplianceError, DeadlineExceeded
from appliance.models.catalog import Model
from appliance.wire import subjects
from appliance.wire.items import Options, WorkItem, WorkResult, cost_of
from appliance.workqueue.publisher import Held, Publisher

Input = str | list[int]


class Question(NamedTuple):
    """What one request asks of one model."""

    model: Model
    operation: str
    options: Options
    inputs: list[Input]
    timeout_s: float
    truncate: bool = False


class Answer(NamedTuple):
    """Per input, in order: its output and its token count. `truncated` lists the inputs that were cut."""

    outputs: list[bytes]
    tokens: list[int]
    truncated: list[int]


class Asker:
    """Asks questions through the queue."""

    def __init__(self, publisher: Publisher, queue: Queue, gateway_id: str) -> None:
        self._publisher = publisher
        self._queue = queue
        self._gateway_id = gateway_id
        self._numbers = itertools.count(1)

    async def ask(self, question: Question) -> Answer:
        """Return the answer, or raise the error of the first input that failed; its `param` names the input.

        Cancelled when the caller hangs up; what is still held then is abandoned.
        """
        lane = subjects.lane(question.model.name)
        request_number = next(self._numbers)
        starts = [0]
        if len(question.inputs) > 1:
            starts = list(cut(question.inputs, self._queue.item_tokens, self._queue.item_inputs))
        held: list[Held] = []
        timer = asyncio.get_running_loop().call_later(question.timeout_s, self._expire, held, question.timeout_s)
        try:
            for start, end in zip(starts, [*starts[1:], len(question.inputs)], strict=True):
                held.append(self._publisher.submit(lane, self._item(question, request_number, start, end)))
            results = [_checked(await one.answer, question, start) for one, start in zip(held, starts, strict=True)]
        finally:
            timer.cancel()
            for one in held:
                self._publisher.abandon(one)  # does nothing for an item that is answered
                if one.answer.done() and not one.answer.cancelled():
                    one.answer.exception()  # seen: only the first error is told
        return _joined(results, starts)

    def _item(self, question: Question, number: int, start: int, end: int) -> WorkItem:
        return WorkItem(
            item_id=f"{self._gateway_id}.{number}.{start}",
            gateway_id=self._gateway_id,
            model_id=question.model.name,
            operation=question.operation,
            options=question.options,
            lora="",
            inputs=question.inputs if end - start == len(question.inputs) else question.inputs[start:end],
            truncate=question.truncate,
            remaining_ms=int(question.timeout_s * 1000),
        )

    def _expire(self, held: list[Held], timeout_s: float) -> None:
        error = DeadlineExceeded(f"No answer within {timeout_s:g} s, the time that the request allowed.")
        for one in held:
            if not one.answer.done():
                one.answer.set_exception(error)


def cut(inputs: Sequence[Input], item_tokens: int, item_inputs: int) -> Iterator[int]:
    """Yield the index at which each item starts: items of about `item_tokens` and at most `item_inputs` inputs."""
    tokens, count = 0, 0
    for index, one in enumerate(inputs):
        size = cost_of(one)
        if not index or count == item_inputs or tokens + size > item_tokens:
            yield index
            tokens, count = 0, 0
        tokens, count = tokens + size, count + 1


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
