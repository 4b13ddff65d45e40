"""Deliveries to pieces: texts become token ids here, so that costs are true, not guessed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from appliance.errors import ApplianceError, BadRequest, InputTooLong
from appliance.models.manifest import Model
from appliance.models.tokenizer import Tokenizer
from appliance.wire.items import WorkItem, WorkResult
from appliance.worker.job import Job, Key, Piece
from appliance.workqueue.consumer import Delivery

INLINE_CHARS = 20_000
"""Texts up to this long together are tokenised on the event loop (under 2 ms); longer ones in a thread."""


@dataclass(frozen=True)
class Served:
    """A model that this worker serves, and its tokenizer."""

    model: Model
    tokenizer: Tokenizer


class Refused(Exception):
    """An input that cannot be run: which one, and the error its caller gets."""

    def __init__(self, index: int, error: ApplianceError) -> None:
        super().__init__(error.message)
        self.index = index
        self.error = error


Encoded = tuple[list[list[int]], list[int], dict[int, ApplianceError]]
"""The ids of every input, which were cut, and which cannot be run, with the reason."""


class Intake:
    """Turns each delivery into a Job and its Pieces. The callbacks are called on the loop.

    `on_refused` takes what cannot be run at all, `on_whole` a job whose every input was refused on its own.
    """

    def __init__(
        self,
        on_ready: Callable[[Job, list[Piece]], None],
        on_refused: Callable[[Delivery, int, ApplianceError], None],
        on_whole: Callable[[Job, WorkResult], None],
        clock: Callable[[], float],
    ) -> None:
        self._on_ready = on_ready
        self._on_refused = on_refused
        self._on_whole = on_whole
        self._clock = clock
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="tokenise")
        self._tasks: set[asyncio.Future[None]] = set()

    @property
    def is_busy(self) -> bool:
        """Whether something is being tokenised in the thread."""
        return bool(self._tasks)

    def accept(self, delivery: Delivery, served: Served) -> None:
        """Tokenise a delivery and hand on what came of it."""
        arrived = self._clock()
        if sum(map(len, delivery.item.inputs)) <= INLINE_CHARS:
            self._hand_on(delivery, served, arrived, lambda: encoded(delivery.item, served))
            return
        task = asyncio.ensure_future(self._accept_in_thread(delivery, served, arrived))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept_in_thread(self, delivery: Delivery, served: Served, arrived: float) -> None:
        encoding = asyncio.get_running_loop().run_in_executor(self._threads, encoded, delivery.item, served)
        await asyncio.wait([encoding])
        self._hand_on(delivery, served, arrived, encoding.result)

    def _hand_on(self, delivery: Delivery, served: Served, arrived: float, get: Callable[[], Encoded]) -> None:
        try:
            ids, truncated, refusals = get()
        except Refused as refused:
            self._on_refused(delivery, refused.index, refused.error)
            return
        item = delivery.item
        key = Key(served.model.name, item.operation, item.lora, item.options, item.klass)
        lengths = [len(one) for one in ids]
        expires_at = arrived + item.remaining_ms / 1e3 - delivery.waited_s
        job = Job(delivery, key, served.model.content_hash, lengths, truncated, expires_at, [b""] * len(ids), len(ids))
        for index, error in refusals.items():
            if (result := job.fail(index, error)) is not None:
                self._on_whole(job, result)
                return
        pieces = [Piece(job, index, one, arrived) for index, one in enumerate(ids) if index not in refusals]
        self._on_ready(job, pieces)

    def stop(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def encoded(item: WorkItem, served: Served) -> Encoded:
    """As `encode`, but an accepted job goes on without the inputs that cannot be run: they are told beside the rest."""
    refusals: dict[int, ApplianceError] = {}
    while True:
        try:
            return *encode(item, served), refusals
        except Refused as refused:
            if not item.is_job or refused.index in refusals:
                raise
            refusals[refused.index] = refused.error
            left = [*item.inputs]
            left[refused.index] = []
            item = item._replace(inputs=left)


def encode(item: WorkItem, served: Served) -> tuple[list[list[int]], list[int]]:
    """Return the ids of every input, special tokens included, and the indexes of those that were cut.

    Raises Refused for an input that is too long (and not to be cut) or has ids outside the vocabulary.
    """
    tokenizer, limit = served.tokenizer, served.model.limits.max_tokens
    texts = [one for one in item.inputs if isinstance(one, str)]
    try:
        encoded = iter(tokenizer.encode(texts) if texts else ())
    except TypeError:
        raise Refused(0, BadRequest("A text is not valid Unicode.")) from None
    found: list[list[int]] = []
    truncated: list[int] = []
    for index, one in enumerate(item.inputs):
        ids = next(encoded) if isinstance(one, str) else _from_ids(one, index, tokenizer)
        if len(ids) > limit:
            if not item.truncate:
                raise Refused(index, _too_long(served.model.name, limit, len(ids)))
            ids = tokenizer.truncate(ids, limit)
            truncated.append(index)
        found.append(ids)
    return found, truncated


def _from_ids(ids: list[int], index: int, tokenizer: Tokenizer) -> list[int]:
    if ids and (min(ids) < 0 or max(ids) >= tokenizer.vocab_size):
        raise Refused(
            index, BadRequest(f"A token id is outside the model's vocabulary (0 to {tokenizer.vocab_size - 1}).")
        )
    return tokenizer.wrap(ids)


def _too_long(name: str, limit: int, length: int) -> InputTooLong:
    return InputTooLong(
        f"The input has {length} tokens (special tokens included); {name} takes {limit}. "
        'Shorten it, or send "truncate": true to have its end cut off.'
    )
