from __future__ import annotations

from appliance.errors import EngineFailed
from tests.unit.making import pieces


def test_a_job_is_whole_when_its_last_output_is_there_in_any_order() -> None:
    job = pieces([3, 4, 5])[0].job
    assert job.take(2, b"c") is None
    assert job.take(0, b"a") is None
    result = job.take(1, b"b")
    assert result is not None
    assert (result.outputs, result.tokens, result.content_hash) == ([b"a", b"b", b"c"], [3, 4, 5], "sha256:1")
    assert result.item_id == job.delivery.item.item_id


def test_the_first_failure_is_the_answer_and_there_is_only_one() -> None:
    job = pieces([1, 1, 1])[0].job
    assert job.take(0, b"a") is None
    failed = job.fail(1, EngineFailed("Why."))
    assert failed is not None
    assert (failed.failed_input, failed.error_code, failed.outputs) == (1, "engine_failed", [])
    assert job.fail(2, EngineFailed("Another.")) is None
    assert job.take(2, b"c") is None
    assert job.take(1, b"b") is None


def test_an_accepted_job_tells_its_failures_beside_its_outputs_once_it_is_whole() -> None:
    job = pieces([1, 1, 1], gateway_id="")[0].job
    assert job.fail(1, EngineFailed("Why.")) is None
    assert job.fail(1, EngineFailed("Again.")) is None
    assert job.take(0, b"a") is None
    assert job.fail(0, EngineFailed("Too late.")) is None
    result = job.take(2, b"c")
    assert result is not None
    assert (result.error_code, result.outputs) == ("", [b"a", b"", b"c"])
    assert list(result.errors) == [(1, "engine_failed", "Why.")]


def test_an_error_about_the_whole_ends_an_accepted_job_s_item_too() -> None:
    result = pieces([1, 1], gateway_id="")[0].job.fail(-1, EngineFailed("Why."))
    assert result is not None
    assert (result.error_code, result.failed_input) == ("engine_failed", -1)
