from __future__ import annotations

from collections import Counter

import pytest

from appliance.wire.subjects import BULK, INTERACTIVE
from appliance.worker.turns import Turns

BOTH = (BULK, INTERACTIVE)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_both_classes_get_their_shares(share: float) -> None:
    turns, used = Turns(share), Counter[str]()
    for _ in range(1000):
        klass = turns.next(BOTH)
        turns.charge(klass, 5.0)
        used[klass] += 5
    assert used[BULK] / 5000 == pytest.approx(share, abs=0.01)


def test_a_class_alone_gets_everything_and_owes_nothing_for_it() -> None:
    turns = Turns(0.1)
    for _ in range(100):
        assert turns.next([BULK]) == BULK
        turns.charge(BULK, 100.0)
    assert turns.next(BOTH) == INTERACTIVE
    for _ in range(1000):
        turns.charge(turns.next([INTERACTIVE]), 100.0)
    order = []
    for _ in range(12):
        order.append(turns.next(BOTH))
        turns.charge(order[-1], 100.0)
    assert 1 <= order.count(BULK) <= 2  # neither starved by the past nor paid for it
