from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from appliance.supervisor.leases import SLOTS, Leases


@pytest.fixture
def ends() -> Iterator[tuple[Leases, Leases]]:
    """The worker's end and the daemon's, of the same memory."""
    daemon = Leases.create()
    worker = Leases(os.dup(daemon.fd))
    yield worker, daemon
    worker.close()
    daemon.close()


def test_the_daemon_sees_what_the_worker_holds_and_not_what_it_settled(ends: tuple[Leases, Leases]) -> None:
    worker, daemon = ends
    for number in range(5):
        worker.add(f"$JS.ACK.{number}")
    worker.remove("$JS.ACK.2")
    worker.remove("never added")
    assert sorted(daemon.held()) == [f"$JS.ACK.{n}" for n in (0, 1, 3, 4)]


def test_what_the_worker_itself_was_at_work_on_is_a_suspect(ends: tuple[Leases, Leases]) -> None:
    worker, daemon = ends
    worker.add("a")
    worker.add("b")
    worker.mark("a", True)
    assert daemon.held() == {"a": True, "b": False}
    worker.mark("a", False)
    assert daemon.held() == {"a": False, "b": False}
    worker.remove("a")
    worker.add("c")
    assert daemon.held() == {"b": False, "c": False}


def test_more_than_there_is_room_for_is_left_to_the_lease_s_end(ends: tuple[Leases, Leases]) -> None:
    worker, daemon = ends
    for number in range(SLOTS + 10):
        worker.add(str(number))
    worker.add("x" * 300)
    assert len(daemon.held()) == SLOTS
    worker.clear(lambda ack_subject: False)
    assert daemon.held() == {}


def test_what_is_leased_from_the_disk_outlives_the_broker(ends: tuple[Leases, Leases]) -> None:
    worker, daemon = ends
    worker.add("memory")
    worker.add("disk")
    worker.clear(lambda ack_subject: ack_subject == "disk")
    assert daemon.held() == {"disk": False}
    worker.remove("disk")
    assert daemon.held() == {}
