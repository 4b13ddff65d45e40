"""Whether a request would be answered: known from one that was, lately, all the way through queue and engine."""

from __future__ import annotations

import asyncio

from appliance import log
from appliance.errors import ApplianceError
from appliance.gateway.asking import Asker, Question
from appliance.gateway.fleet import Fleet
from appliance.gateway.terms import Terms
from appliance.models.catalog import Catalog, Model
from appliance.wire.subjects import INTERACTIVE

_log = log.Logger("probing")

_AFTER_S = 10.0
"""Without an answer for this long, a probe is sent: on an idle appliance, one small input every ten seconds."""
_STALE_S = 30.0
_TIMEOUT_S = 5.0
_FIRST_LOOK_S, _LOOK_S = 0.02, 1.0
_TEXT = "Is anybody there?"


class Prober:
    """Callers' own answers are proof, too; it asks for one only where there was none."""

    def __init__(self, asker: Asker, fleet: Fleet, catalog: Catalog) -> None:
        self._asker = asker
        self._fleet = fleet
        self._catalog = catalog
        self._problem = "No answer has come through the queue yet."

    def not_proven(self) -> str:
        """Return why nobody should count on an answer; empty where one came lately."""
        age_s = asyncio.get_running_loop().time() - self._asker.answered_at
        return "" if age_s < _STALE_S else self._problem

    async def run(self) -> None:
        """Run until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            if loop.time() - self._asker.answered_at > _AFTER_S:
                await self._probe()
            await asyncio.sleep(_LOOK_S if self._asker.answered_at > 0 else _FIRST_LOOK_S)

    async def _probe(self) -> None:
        model = self._probed_model()
        if model is None:
            self._problem = "No model can be used."
            return
        terms = Terms("probe", INTERACTIVE, _TIMEOUT_S, b"")
        try:
            await self._asker.ask(Question(model, model.operations[0], (), [_TEXT], terms))
        except ApplianceError as exc:
            self._problem = f"A probe of {model.name} was not answered: {exc.message}"
            _log.warning("probe", model=model.name, error=exc.code)

    def _probed_model(self) -> Model | None:
        """Return a model that is ready; where none is and none is coming, one that is loaded for this."""
        models = {self._fleet.model_state(model.name): model for model in reversed(self._catalog.models)}
        return models.get("ready") or (None if self._fleet.not_ready() else models.get("cold"))
