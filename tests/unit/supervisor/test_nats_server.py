from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.config import Queue
from appliance.supervisor.nats_server import ROLES, NatsServer, find_binary, write_whole


@pytest.fixture
def server(tmp_path: Path) -> NatsServer:
    passwords = {role: f"secret-{role}" for role in ROLES}
    return NatsServer(4999, passwords, Queue(), tmp_path / "queue", tmp_path / "run")


def matches(pattern: str, subject: str) -> bool:
    """NATS' rule: `*` is one token, `>` is all that are left."""
    wanted, given = pattern.split("."), subject.split(".")
    for position, token in enumerate(wanted):
        if token == ">":
            return len(given) > position
        if position >= len(given) or token not in ("*", given[position]):
            return False
    return len(wanted) == len(given)


@pytest.mark.parametrize(
    ("role", "verb", "subject", "is_allowed"),
    [
        ("gateway", "publish", "LIVE.interactive-m", True),
        ("gateway", "publish", "$JS.API.STREAM.CREATE.LIVE", True),
        ("gateway", "publish", "$JS.API.STREAM.DELETE.LIVE", False),
        ("gateway", "publish", "$JS.API.STREAM.PURGE.LIVE", False),
        ("gateway", "publish", "$JS.API.CONSUMER.MSG.NEXT.LIVE.interactive-m", False),
        ("gateway", "publish", "$JS.ACK.LIVE.interactive-m.1.1.1.1.0", False),
        ("gateway", "publish", "r.gateway0", False),
        ("gateway", "publish", "_INBOX_worker.cpu.q.1", True),
        ("gateway", "publish", "_INBOX_daemon.1", False),
        ("gateway", "subscribe", "r.gateway0-1", True),
        ("gateway", "subscribe", "hb.>", True),
        ("gateway", "subscribe", "LIVE.>", False),
        ("gateway", "subscribe", "_INBOX_worker.cpu", False),
        ("gateway", "subscribe", ">", False),
        ("worker", "publish", "r.gateway0-1", True),
        ("worker", "publish", "hb.cpu", True),
        ("worker", "publish", "$JS.ACK.LIVE.interactive-m.1.1.1.1.0", True),
        ("worker", "publish", "$JS.API.CONSUMER.MSG.NEXT.LIVE.interactive-m", True),
        ("worker", "publish", "$JS.API.CONSUMER.MSG.NEXT.JOBS.bulk-m", True),
        ("worker", "publish", "$JS.ACK.JOBS.bulk-m.1.1.1.1.0", True),
        ("worker", "publish", "JOBRESULTS.item.job_1.0.0", True),
        ("worker", "publish", "JOBRESULTS.job.anonymous.job_1", False),
        ("worker", "publish", "JOBS.bulk-m.anonymous.job_1", False),
        ("worker", "publish", "$JS.API.STREAM.PURGE.JOBRESULTS", False),
        ("worker", "publish", "$JS.API.DIRECT.GET.JOBRESULTS.JOBRESULTS.item.job_1.0.0", False),
        ("gateway", "publish", "JOBS.bulk-m.anonymous.job_1", True),
        ("gateway", "publish", "$JS.API.DIRECT.GET.JOBRESULTS.JOBRESULTS.item.job_1.0.0", True),
        ("gateway", "publish", "$JS.API.STREAM.CREATE.JOBS", False),
        ("gateway", "publish", "$JS.API.STREAM.DELETE.JOBRESULTS", False),
        ("gateway", "publish", "$JS.API.CONSUMER.MSG.NEXT.JOBS.bulk-m", False),
        ("worker", "publish", "$JS.API.STREAM.DELETE.LIVE", False),
        ("worker", "publish", "LIVE.interactive-m", False),
        ("worker", "subscribe", "_INBOX_worker.cpu.1", True),
        ("worker", "subscribe", "LIVE.>", False),
        ("worker", "subscribe", "r.>", False),
        ("worker", "subscribe", "_INBOX_gateway.>", False),
        ("daemon", "publish", "hb.daemon", True),
    ],
)
def test_each_role_may_do_its_own_part_only(
    server: NatsServer, role: str, verb: str, subject: str, is_allowed: bool
) -> None:
    users = {user["user"]: user for user in json.loads(server.configuration())["authorization"]["users"]}
    patterns = users[role]["permissions"][verb]
    assert set(users[role]["permissions"]) == {"publish", "subscribe"}  # nothing beside, such as "allow_responses"
    assert any(matches(pattern, subject) for pattern in patterns) == is_allowed


def settings(server: NatsServer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(server.configuration())
    return found


def test_it_listens_on_loopback_alone_and_nowhere_else(server: NatsServer) -> None:
    config = settings(server)
    assert config["host"] == "127.0.0.1"
    assert not {"http", "http_port", "https", "cluster", "leafnodes", "websocket", "mqtt", "gateway"} & config.keys()
    assert "no_auth_user" not in config


def test_no_password_is_on_its_command_line(server: NatsServer) -> None:
    server.run_dir.mkdir()
    argv = " ".join(server.process()._argv)
    assert "127.0.0.1" in argv
    assert "secret-" not in argv


def test_its_configuration_is_private(server: NatsServer) -> None:
    server.run_dir.mkdir()
    server.process()
    assert (server.run_dir / "nats-server.conf").stat().st_mode & 0o077 == 0


def test_every_life_has_passwords_of_its_own(tmp_path: Path) -> None:
    one, other = (NatsServer.plan(Queue(), tmp_path, tmp_path).passwords for _ in range(2))
    assert set(one) == set(ROLES)
    assert len({*one.values(), *other.values()}) == 2 * len(ROLES)
    assert all(len(password) >= 43 for password in one.values())


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    (tmp_path / ".file.new").write_text("what a crash left")
    write_whole(path, "one")
    write_whole(path, "two")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "two"


def test_the_binary_is_found() -> None:
    assert find_binary().name == "nats-server"
