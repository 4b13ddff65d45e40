"""The lanes that a worker serves: the consumers and one tokenizer for each model that its device can run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from appliance import log
from appliance.config import Config
from appliance.errors import ApplianceError, Unavailable
from appliance.models import golden
from appliance.models.catalog import Catalog, Model
from appliance.models.tokenizer import Tokenizer
from appliance.wire import subjects
from appliance.wire.heartbeat import ModelState
from appliance.worker.intake import Served
from appliance.workqueue.broker import Broker
from appliance.workqueue.consumer import Delivery, LaneConsumer

_log = log.Logger("lanes")


class Source(NamedTuple):
    """One of a model's lanes, and this worker's end of it."""

    model_id: str
    stream: str
    klass: str
    consumer: LaneConsumer


class Lanes:
    """Follows the models folder. Deliveries of every lane come to `on_delivery`.

    `broken` holds the models that fit the device and cannot be served: their texts cannot be turned into tokens.
    """

    def __init__(self, broker: Broker, config: Config, device: str, on_delivery: Callable[[Delivery], None]) -> None:
        self._broker = broker
        self._ack_wait_s = config.queue.ack_wait_s
        self._device = device
        self._on_delivery = on_delivery
        self._catalog = Catalog(config.models_dir)
        self._served: dict[str, Served] = {}
        self._consumers: dict[str, dict[tuple[str, str], LaneConsumer]] = {}  # by model, then by stream and class
        self._is_incomplete = False
        self.broken: dict[str, ModelState] = {}

    def served(self, model_id: str) -> Served | None:
        return self._served.get(model_id)

    def is_stale(self) -> bool:
        """Return whether the models folder changed since the last `rescan`."""
        return self._is_incomplete or self._catalog.is_stale()

    async def rescan(self) -> list[Model]:
        """Serve what the models folder holds now, and nothing that is gone; return the models served.

        Raises Unavailable when the broker does not answer; it stays stale then, to be tried again.
        """
        self._is_incomplete = True
        self._catalog.scan()
        self.broken.clear()
        models = [model for model in self._catalog.models if _fits(model, self._device)]
        for model in models:
            known = self._served.get(model.name)
            is_known = known is not None and known.model.content_hash == model.content_hash
            if not is_known:
                self._serve(model)
            if model.name in self._served:
                await self._listen(model.name)
        for name in self._served.keys() - {model.name for model in models}:
            del self._served[name]
            for consumer in self._consumers.pop(name, {}).values():
                await consumer.stop()
        self._is_incomplete = any(len(one) < len(subjects.SOURCES) for one in self._consumers.values())
        return [served.model for served in self._served.values()]

    def _serve(self, model: Model) -> None:
        self.broken.pop(model.name, None)
        try:
            tokenizer = Tokenizer.load(model)
            if (model.folder / golden.GOLDEN_FILE).exists():
                golden.check_tokens(golden.read_golden(model.folder), tokenizer)
        except ApplianceError as exc:
            _log.error("model", model=model.name, state="failed", reason=exc.message)
            self.broken[model.name] = ModelState("failed", exc.message)
            return
        self._served[model.name] = Served(model, tokenizer)

    async def _listen(self, name: str) -> None:
        """Take from every lane of a model; without that of jobs, where its stream on disk cannot be had for now."""
        consumers = self._consumers.setdefault(name, {})
        for stream, klass in subjects.SOURCES:
            if (stream, klass) in consumers:
                continue
            lane = subjects.lane(name, klass)
            consumer = LaneConsumer(self._broker, lane, self._ack_wait_s, self._on_delivery, stream)
            try:
                await consumer.start()
            except Unavailable as exc:
                if stream == subjects.LIVE:
                    raise
                _log.warning("lane", lane=lane, stream=stream, state="not there yet", reason=exc.message)
                continue
            consumers[stream, klass] = consumer

    def want(self, klass: str, count: int, failed: Collection[str]) -> None:
        """Set the credit of every lane of a class; for models that `failed` no accepted jobs are asked for."""
        for name, consumers in self._consumers.items():
            for (stream, its_class), consumer in consumers.items():
                if its_class == klass:
                    consumer.want(0 if stream == subjects.JOBS and name in failed else count)

    def sources(self) -> Iterator[Source]:
        for name, consumers in self._consumers.items():
            for (stream, klass), consumer in consumers.items():
                yield Source(name, stream, klass, consumer)

    async def stop(self) -> None:
        """Take nothing new from any lane.

        All are closed before anything else can run: what one that is still open is given back, it gets again at once.
        """
        every = [consumer for consumers in self._consumers.values() for consumer in consumers.values()]
        for consumer in every:
            consumer.close()
        for consumer in every:
            await consumer.stop()


def _fits(model: Model, device: str) -> bool:
    """A virtual device runs fake models only; a real one runs all."""
    return model.runtime == "fake" or not device.startswith("virtual")
