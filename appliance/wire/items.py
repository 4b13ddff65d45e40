"""Work items and their results: what the queue carries, and its codec (msgpack, positional, versioned).

Positional arrays, because an item is coded twice a request: version first, new fields only at the end,
unknown ones ignored, so that N and N+1 understand each other. Named tuples, since a frozen dataclass takes three
times as long to make.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgpack

from appliance.errors import BY_CODE, ApplianceError, Internal
from appliance.wire.subjects import INTERACTIVE

VERSION = 1

Options = tuple[tuple[str, Any], ...]
"""Options that change the batch, as sorted pairs, so that they can be part of a batch's key."""


class WorkItem(NamedTuple):
    """The queued unit: a chunk of one request's inputs for one model and operation.

    `inputs` are texts or token ids (no special tokens needed); `remaining_ms` is the time left until the
    caller gives up, counted from the moment of publishing, since clocks of boxes differ; `cost` is `cost_of(inputs)`,
    in which gateways count backlogs and workers measure their pace. `content_hash` is the model's that is meant, "" for
    any. An item of an accepted job has no gateway: nobody waits on a line, and its result is stored.
    """

    item_id: str
    gateway_id: str
    model_id: str
    operation: str
    options: Options
    lora: str
    inputs: list[str | list[int]]
    truncate: bool
    remaining_ms: int
    cost: int = 0
    klass: str = INTERACTIVE
    content_hash: str = ""

    @property
    def is_job(self) -> bool:
        return not self.gateway_id


class WorkResult(NamedTuple):
    """One item's answer: per input its output (the operation's own bytes) and its token count, or an error.

    `content_hash` is the model's, so that no answer can come from another model than the one asked.
    `failed_input` is the index in the item's inputs that an error is about, or -1. In a job each input stands for
    itself: `errors` lists (index, code, message) of those that failed among good ones; their outputs are empty.
    """

    item_id: str
    content_hash: str
    outputs: list[bytes]
    tokens: list[int]
    truncated: list[int]
    error_code: str = ""
    error_message: str = ""
    failed_input: int = -1
    errors: tuple[tuple[int, str, str], ...] = ()

    def error(self) -> ApplianceError | None:
        """Return the error as an exception of our tree, or None for a success."""
        if not self.error_code:
            return None
        return BY_CODE.get(self.error_code, Internal)(self.error_message)


def failure(item_id: str, error: ApplianceError, failed_input: int = -1) -> WorkResult:
    """The result that says that an item failed."""
    return WorkResult(item_id, "", [], [], [], error.code, error.message, failed_input)


def pack_item(item: WorkItem) -> bytes:
    packed: bytes = msgpack.packb((VERSION, *item))
    return packed


def unpack_item(data: bytes) -> WorkItem:
    """Raises ValueError where `data` is no item of a version that we know."""
    fields = msgpack.unpackb(data, use_list=True)
    if not isinstance(fields, list) or len(fields) < _LEAST_FIELDS:
        raise ValueError("not a work item")
    fields[5] = tuple((key, value) for key, value in fields[5])
    return WorkItem(*fields[1:_ITEM_FIELDS])


_ITEM_FIELDS = 1 + len(WorkItem._fields)
_LEAST_FIELDS = _ITEM_FIELDS - len(WorkItem._field_defaults)


_CHARS_PER_TOKEN = 4
_TOKENS_AROUND = 2


def cost_of(one: str | list[int]) -> int:
    """Estimate an input's cost in tokens. Characters are a good guess; the worker's true count comes too late."""
    return (len(one) // _CHARS_PER_TOKEN if isinstance(one, str) else len(one)) + _TOKENS_AROUND


def pack_cancels(item_ids: list[str]) -> bytes:
    packed: bytes = msgpack.packb((VERSION, item_ids))
    return packed


def unpack_cancels(data: bytes) -> list[str]:
    item_ids: list[str] = msgpack.unpackb(data)[1]
    return item_ids


def pack_results(results: list[WorkResult]) -> bytes:
    packed: bytes = msgpack.packb((VERSION, results))
    return packed


def unpack_results(data: bytes) -> list[WorkResult]:
    fields = msgpack.unpackb(data, use_list=True)
    return [_result(row) for row in fields[1]]


def _result(row: list[Any]) -> WorkResult:
    if len(row) < _RESULT_FIELDS:
        return WorkResult(*row)
    return WorkResult._make((*row[: _RESULT_FIELDS - 1], tuple(map(tuple, row[_RESULT_FIELDS - 1]))))


_RESULT_FIELDS = len(WorkResult._fields)
