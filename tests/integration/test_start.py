"""What an administrator meets when it cannot start, and when it starts on what a crash left behind."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import wait
from tests.client import embed
from tests.harness import FAST_CONFIG, Appliance, running, write_fake

BAD_CONFIGURATION = 78


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock.getsockname()[1]


def last_words(appliance: Appliance) -> str:
    """Return the sentence on which it ended; there is one, and no traceback."""
    said = [line for line in appliance.log.splitlines() if line.startswith("appliance: ")]
    assert len(said) == 1, appliance.log
    assert "Traceback" not in appliance.log
    return said[0]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("[server]\nprot = 80\n", "server.prot is not a setting"),
        ("[worker]\ndevices = ['gpu63']\n", 'worker.devices: "gpu63" is not there'),
        ("[server]\nhost = '192.0.2.1'\n", "192.0.2.1 is not an address of this machine"),
        ("[server]\nhost = 'no such host'\n", "no such host is not an address of this machine"),
    ],
)
def test_a_configuration_that_cannot_be_is_status_78_and_one_sentence(
    appliance: Appliance, config: str, words: str
) -> None:
    appliance.config.write_text(config)
    appliance.start()
    assert appliance.wait_exit() == BAD_CONFIGURATION
    assert words in last_words(appliance)


def test_a_port_in_use_is_named(appliance: Appliance) -> None:
    with taken_port() as port:
        appliance.start("--port", str(port))
        assert appliance.wait_exit() == BAD_CONFIGURATION
    assert f"Port {port} on 127.0.0.1 is in use" in last_words(appliance)


def test_a_file_in_place_of_the_data_folder_is_named(appliance: Appliance) -> None:
    file = appliance.folder / "file"
    file.write_text("not a folder")
    appliance.start("--port", "0", "--data", str(file))
    assert appliance.wait_exit() == BAD_CONFIGURATION
    assert str(file) in last_words(appliance)
    assert file.read_text() == "not a folder"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_folder_that_cannot_be_written_is_named(appliance: Appliance) -> None:
    appliance.data.chmod(0o500)
    appliance.start()
    assert appliance.wait_exit() == BAD_CONFIGURATION
    assert str(appliance.data) in last_words(appliance)
    appliance.data.chmod(0o700)


def test_a_second_daemon_on_the_same_data_is_refused_and_the_first_goes_on(
    appliance: Appliance, tmp_path: Path
) -> None:
    write_fake(appliance.models)
    with running(appliance):
        second = Appliance(tmp_path / "second", FAST_CONFIG)
        try:
            second.start("--port", "0", "--data", str(appliance.data))
            assert second.wait_exit() == BAD_CONFIGURATION
        finally:
            second.end()
        assert f"Another daemon (pid {appliance.find('daemon').pid}) uses" in last_words(second)
        assert embed(appliance.url, "still here").status == 200


def test_it_starts_on_what_a_crash_left_behind(appliance: Appliance) -> None:
    write_fake(appliance.models)
    run = appliance.data / "run"
    run.mkdir()
    (run / "lock").write_text("1\n")
    (run / "nats-server.conf").touch()  # what a power cut leaves
    (run / ".nats-server.conf.new").write_text("half")
    (appliance.models / ".staging-old").mkdir()
    (appliance.models / "empty").mkdir()
    with running(appliance):
        assert embed(appliance.url, "x").status == 200
        assert appliance.health()["problems"] == []


def test_ctrl_c_ends_it_in_order(appliance: Appliance) -> None:
    write_fake(appliance.models)
    appliance.start_ready()
    assert appliance.stop(signal.SIGINT) == 0
    assert "state=stopped" in appliance.log
    assert "Traceback" not in appliance.log


def test_a_stop_while_it_starts_ends_it_in_order(appliance: Appliance) -> None:
    write_fake(appliance.models)
    appliance.start()
    # It answers signals by the time that it has said which devices there are.
    wait.until(lambda: "devices=" in appliance.log, 30)
    assert appliance.stop() == 0


def test_without_a_model_it_runs_and_says_what_to_do(appliance: Appliance) -> None:
    appliance.start()
    try:
        wait.until(lambda: appliance.port, 30)
        ready = appliance.get("/readyz")
        assert (ready.status, ready.headers["retry-after"]) == (503, "1")
        assert appliance.get("/healthz").status == 200
        health = appliance.health()
        assert health["status"] == "unavailable"
        assert any("appliance models pull" in problem for problem in health["problems"])
        assert embed(appliance.url, "x").status == 404
    finally:
        assert appliance.stop() == 0


def test_the_first_words_are_a_line_to_paste(appliance: Appliance) -> None:
    write_fake(appliance.models, "my-model")
    with running(appliance):
        assert f"curl -s {appliance.url}/v1/embeddings" in appliance.out
        assert '"model": "my-model"' in appliance.out


def test_nothing_private_is_readable_by_others(appliance: Appliance) -> None:
    write_fake(appliance.models)
    with running(appliance):
        for name in ("nats-server.conf", "lock"):
            assert (appliance.data / "run" / name).stat().st_mode & 0o077 == 0
        password = (appliance.data / "run" / "nats-server.conf").read_text().split('"password": "')[1].split('"')[0]
        assert password not in appliance.log
        for process in appliance.processes():
            assert password not in " ".join(process.cmdline())
            assert password not in str(process.environ())


def test_every_listening_socket_is_on_loopback(appliance: Appliance) -> None:
    write_fake(appliance.models)
    with running(appliance):
        addresses = {
            connection.laddr.ip
            for process in appliance.processes()
            for connection in process.net_connections("inet")
            if connection.status == "LISTEN"
        }
    assert addresses == {"127.0.0.1"}
