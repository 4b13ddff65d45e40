"""Small whole things for the unit tests: a model, an item, a delivery, pieces of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from appliance.models.model import EmbedSettings, FakeSettings, Limits, Model
from appliance.models.tokenizer import WordTokenizer
from appliance.wire.items import Options, WorkItem
from appliance.wire.subjects import INTERACTIVE
from appliance.worker.intake import Served
from appliance.worker.job import Job, Key, Piece
from appliance.workqueue.consumer import Delivery


def model(name: str = "fake", max_tokens: int = 16, vocab_size: int = 1000, content_hash: str = "sha256:1") -> Model:
    return Model(
        name,
        Path("/nowhere") / name,
        ("embed",),
        "fake",
        Limits(max_tokens, vocab_size),
        content_hash=content_hash,
        embed=EmbedSettings(8, "mean", True),
        fake=FakeSettings(),
    )


def served(max_tokens: int = 16, vocab_size: int = 1000) -> Served:
    return Served(model(max_tokens=max_tokens, vocab_size=vocab_size), WordTokenizer(vocab_size))


def item(
    *inputs: str | list[int],
    item_id: str = "g.1.0",
    gateway_id: str = "g",
    model_id: str = "fake",
    truncate: bool = False,
    options: Options = (),
    cost: int = 0,
) -> WorkItem:
    chosen: list[str | list[int]] = list(inputs) or ["text"]
    return WorkItem(item_id, gateway_id, model_id, "embed", options, "", chosen, truncate, 60_000, cost)


def delivery(work: WorkItem | None = None, epoch: int = 0, delivered: int = 1) -> Delivery:
    work = work or item()
    return Delivery(work, f"$JS.ACK.{work.item_id}", epoch, delivered, 0.0)


def pieces(
    lengths: Sequence[int],
    model_id: str = "fake",
    item_id: str = "g.1.0",
    arrived: float = 0.0,
    klass: str = INTERACTIVE,
    gateway_id: str = "g",
) -> list[Piece]:
    """Return the pieces of one job, of the given lengths, arriving one millisecond after the other."""
    one = delivery(item(*(["text"] * len(lengths)), item_id=item_id, gateway_id=gateway_id, model_id=model_id))
    key = Key(model_id, "embed", "", (), klass)
    job = Job(one, key, "sha256:1", list(lengths), [], math.inf, [b""] * len(lengths), len(lengths))
    return [Piece(job, index, list(range(length)), arrived + index / 1e3) for index, length in enumerate(lengths)]
