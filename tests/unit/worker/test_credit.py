from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.worker.batcher import Limits
from appliance.worker.credit import Holding, credit

LIMITS = Limits(batch_tokens=512, batch_items=64, overhead_tokens=16)
FACTS = st.builds(Holding, st.integers(0, 10_000), st.integers(0, 100_000), st.floats(0, 1000), st.floats(0, 100_000))


@pytest.mark.parametrize(
    ("facts", "ahead", "expected"),
    [
        (Holding(0, 0, 1.0, 16.0), 2, 96),  # 3 batches of 512 tokens, 16 tokens an item
        (Holding(0, 0, 1.0, 1.0), 2, 192),  # 3 batches of 64 inputs
        (Holding(96, 1536, 1.0, 16.0), 2, 0),  # all that it can use is held
        (Holding(48, 768, 1.0, 16.0), 2, 48),
        (Holding(0, 0, 32.0, 100_000.0), 2, 1),  # idle: one at least
        (Holding(1, 4, 32.0, 100_000.0), 2, 0),
    ],
)
def test_credit_is_what_can_be_started_next(facts: Holding, ahead: int, expected: int) -> None:
    assert credit(facts, LIMITS, ahead) == expected


@given(FACTS, st.integers(1, 8))
def test_credit_is_never_negative_and_an_idle_worker_always_asks(facts: Holding, ahead: int) -> None:
    given_out = credit(facts, LIMITS, ahead)
    assert given_out >= (0 if facts.pieces else 1)


@given(FACTS, st.integers(1, 8))
def test_who_holds_more_asks_for_no_more(facts: Holding, ahead: int) -> None:
    fuller = Holding(facts.pieces + 1, facts.tokens + 8, facts.mean_item_pieces, facts.mean_item_tokens)
    assert credit(fuller, LIMITS, ahead) <= max(1, credit(facts, LIMITS, ahead))
