"""More than fits: told at once, in numbers that a client can use, and everything that was taken is answered."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests import wait
from tests.client import Client, Reply, embed, talk
from tests.harness import FAST_CONFIG, Appliance, running, write_fake
from tests.integration.oracle import vector

CALLERS = 60


def test_a_full_lane_is_429_with_a_time_and_what_was_taken_is_answered(appliance: Appliance) -> None:
    appliance.config.write_text(FAST_CONFIG + "[queue]\nmax_items = 8\n")
    write_fake(appliance.models, a_ms=300)
    write_fake(appliance.models, "other")

    async def conversation(client: Client) -> tuple[list[Reply], Reply]:
        asked = [asyncio.ensure_future(client.embed(f"caller {n}")) for n in range(CALLERS)]
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        other = await client.embed("x", "other")  # a full lane is one model's own
        return list(await asyncio.gather(*asked)), other

    with running(appliance):
        replies, other = talk(appliance.url, conversation)
        assert other.status == 200
        assert {reply.status for reply in replies} == {200, 429}
        for number, reply in enumerate(replies):
            if reply.status == 200:
                assert reply.vectors == [pytest.approx(vector(f"caller {number}"))]
            else:
                assert (reply.error["code"], reply.error["type"]) == ("overloaded", "rate_limit_error")
                assert int(reply.headers["retry-after"]) >= 1
        wait.until(lambda: embed(appliance.url, "afterwards").status == 200, 10)
        assert appliance.health()["gateway"]["held_items"] == 0


def test_no_answer_in_time_is_504_at_that_time(appliance: Appliance) -> None:
    appliance.config.write_text(FAST_CONFIG + "[server]\nrequest_timeout_s = 0.5\n")
    write_fake(appliance.models, a_ms=1500)
    with running(appliance):
        start = time.monotonic()
        reply = embed(appliance.url, "x")
        assert 0.5 <= time.monotonic() - start < 1.5
        assert (reply.status, reply.error["code"]) == (504, "deadline_exceeded")
        wait.until(lambda: appliance.health()["gateway"]["held_items"] == 0, 5)
