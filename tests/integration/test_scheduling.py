"""What computes may interrupt, what passes messages on waits: as the kernel says of the real processes."""

from __future__ import annotations

import os

from tests.harness import Appliance, running, write_fake


def test_only_engines_run_under_the_ordinary_policy(appliance: Appliance) -> None:
    write_fake(appliance.models)
    with running(appliance):
        roles = ("daemon", "gateway", "worker", "nats-server", "engine")
        policies = {role: os.sched_getscheduler(appliance.find(role).pid) for role in roles}
        assert policies.pop("engine") == os.SCHED_OTHER
        assert set(policies.values()) == {os.SCHED_BATCH}
