from __future__ import annotations

import pytest

from appliance.supervisor.notify import Notifier


@pytest.mark.parametrize(
    ("environ", "watchdog_s"),
    [
        ({}, 0.0),
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": ""}, 0.0),
        ({"WATCHDOG_USEC": "soon"}, 0.0),
    ],
)
def test_the_watchdog_s_time_is_read(environ: dict[str, str], watchdog_s: float) -> None:
    assert Notifier(environ).watchdog_s == watchdog_s


def test_without_systemd_nothing_is_sent() -> None:
    notifier = Notifier({})
    notifier.ready("x")
    notifier.status("x")
    notifier.ping()
    notifier.stopping()


def test_a_socket_that_is_gone_is_no_failure() -> None:
    Notifier({"NOTIFY_SOCKET": "/nowhere/at/all"}).ready("x")
