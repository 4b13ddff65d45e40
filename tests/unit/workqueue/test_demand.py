from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.errors import Unavailable
from appliance.workqueue.broker import Broker
from appliance.workqueue.demand import Arrivals, Demand, Line
from tests.fakes import FakeClock


def test_what_is_there_at_the_first_look_is_as_old_as_that() -> None:
    arrivals = Arrivals()
    assert arrivals.age_s(10.0, 5, 3) == 0.0
    assert arrivals.age_s(12.0, 5, 3) == 2.0


def test_the_first_that_waits_came_between_two_looks() -> None:
    arrivals = Arrivals()
    arrivals.age_s(10.0, 0, 0)
    arrivals.age_s(11.0, 0, 0)
    assert arrivals.age_s(12.0, 0, 4) == 0.5
    assert arrivals.age_s(14.0, 0, 9) == 2.5


def test_when_the_first_are_taken_the_next_ones_count() -> None:
    arrivals = Arrivals()
    arrivals.age_s(10.0, 0, 4)
    arrivals.age_s(12.0, 0, 6)
    arrivals.age_s(14.0, 0, 7)
    assert arrivals.age_s(15.0, 4, 3) == 4.0  # number 5 came between 10 and 12
    assert arrivals.age_s(16.0, 6, 1) == 3.0  # number 7 between 12 and 14
    assert arrivals.age_s(17.0, 7, 0) == 0.0


def test_a_new_server_counts_from_one_again() -> None:
    arrivals = Arrivals()
    arrivals.age_s(10.0, 900, 5)
    assert arrivals.age_s(20.0, 0, 5) == 0.0
    assert arrivals.age_s(21.0, 0, 5) == 1.0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=60))
def test_an_age_is_never_more_than_half_a_look_off(steps: list[tuple[int, int]]) -> None:
    """Against the true arrival of each item, looks being a second apart and arrivals in the middle of two."""
    arrivals, came, delivered = Arrivals(), [], 0
    arrivals.age_s(0.0, 0, 0)
    for second, (arriving, taken) in enumerate(steps, start=1):
        came += [second - 0.5] * arriving
        delivered = min(len(came), delivered + taken)
        pending = len(came) - delivered
        age_s = arrivals.age_s(float(second), delivered, pending)
        assert age_s == (second - came[delivered] if pending else 0.0)


class Server:
    """Answers with pages of two consumers each."""

    def __init__(self, pending: dict[str, int]) -> None:
        self.pending = pending
        self.is_missing = False

    async def call(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        assert subject == "CONSUMER.LIST.LIVE"
        if self.is_missing:
            return {"error": {"code": 404}}
        page = list(self.pending.items())[body["offset"] :][:2]
        consumers = [{"name": name, "num_pending": n, "delivered": {"consumer_seq": 0}} for name, n in page]
        return {"total": len(self.pending), "offset": body["offset"], "limit": 2, "consumers": consumers}


def test_a_look_reads_every_page_and_names_the_lanes_with_something_in_them() -> None:
    server, clock = Server({"a": 1, "b": 0, "c": 2, "d": 0, "e": 3}), FakeClock()
    demand = Demand(cast(Broker, server), "LIVE", clock)
    asyncio.run(demand.look())
    clock.now += 2
    assert asyncio.run(demand.look()) == {"a": Line(1, 2.0), "c": Line(2, 2.0), "e": Line(3, 2.0)}


def test_a_stream_that_is_gone_is_an_error_not_an_empty_one() -> None:
    server = Server({})
    server.is_missing = True
    with pytest.raises(Unavailable):
        asyncio.run(Demand(cast(Broker, server), "LIVE", FakeClock()).look())
