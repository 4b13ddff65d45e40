from __future__ import annotations

import asyncio
from typing import cast

import pytest

from appliance.config import Config
from appliance.worker.engine_port import EnginePort
from appliance.worker.residency import Residency
from appliance.worker.resident import Resident, State
from tests.unit.making import model


def made() -> Residency:
    return Residency("virtual0", streams=1, config=Config(), on_change=lambda: None)


class Port:
    """An engine of which only matters whether it has died, or is about to."""

    is_ending = False

    def __init__(self, has_died: bool) -> None:
        self.died = asyncio.get_running_loop().create_future()
        if has_died:
            self.died.set_result("scripted")


@pytest.mark.parametrize(
    ("state", "has_died", "is_there"),
    [
        (State.READY, False, True),
        (State.READY, True, False),  # its batches come back before the model is marked cold
        (State.LOADING, False, False),
        (State.FAILED, False, False),
    ],
)
def test_a_batch_goes_only_to_a_living_engine_that_holds_its_model(
    state: State, has_died: bool, is_there: bool
) -> None:
    async def scenario() -> None:
        residency = made()
        engine = cast(EnginePort, Port(has_died))
        residency.residents["fake"] = Resident(model(), state, engine)
        residency.engines.by_runtime["fake"] = cast(
            EnginePort, Port(has_died=False)
        )  # a successor that has loaded nothing yet
        assert residency.engine_for("fake") is (engine if is_there else None)

    asyncio.run(scenario())


def test_a_model_that_nobody_wants_has_no_engine_and_counts_as_failed() -> None:
    residency = made()
    assert residency.engine_for("gone") is None
    assert residency.state_of("gone") is State.FAILED


def test_models_are_kept_while_their_content_is_the_same() -> None:
    residency = made()
    residency.serve([model("a"), model("b")])
    kept, changed = residency.residents["a"], residency.residents["b"]
    residency.serve([model("a"), model("b", content_hash="sha256:2")])
    assert residency.residents["a"] is kept
    assert residency.residents["b"] is not changed
    residency.serve([model("b", content_hash="sha256:2")])
    assert set(residency.residents) == {"b"}
