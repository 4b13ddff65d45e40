from __future__ import annotations

import pytest

from appliance.workqueue.jobs import Progress, progress_of
from tests.unit.wire.test_jobs import RECORD


@pytest.mark.parametrize(
    ("failed_in", "state", "done", "failed"),
    [
        ({}, "queued", 0, 0),
        ({1: 0}, "running", 2, 0),
        ({1: 1, 2: 1}, "running", 1, 2),
        ({0: 3, 1: 2}, "running", 0, 5),
        ({0: 0, 1: 0, 2: 0}, "done", 6, 0),
        ({0: 3, 1: 2, 2: 0}, "done", 1, 5),
        ({0: 3, 1: 2, 2: 1}, "failed", 0, 6),
    ],
)
def test_a_job_s_state_is_counted_from_its_items_results(
    failed_in: dict[int, int], state: str, done: int, failed: int
) -> None:
    assert progress_of(RECORD, failed_in) == Progress(state, 6, done, failed)


def test_a_cancelled_job_is_cancelled_whatever_it_has() -> None:
    assert progress_of(RECORD._replace(is_cancelled=True), {0: 0}).state == "cancelled"
