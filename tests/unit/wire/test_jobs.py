from __future__ import annotations

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from appliance.wire import items, jobs
from appliance.wire.items import WorkResult
from appliance.wire.jobs import JobRecord
from appliance.wire.subjects import BULK

RECORD = JobRecord(
    "job_1", "anonymous", "fake", "sha256:1", "embed", (("dimensions", 4),), False, [0, 3, 5], 6, 1.5, "print"
)


def test_a_record_comes_back_as_it_was() -> None:
    assert jobs.unpack_record(jobs.pack_record(RECORD)) == RECORD
    assert jobs.unpack_record(jobs.pack_record(RECORD._replace(is_cancelled=True))) == RECORD._replace(
        is_cancelled=True
    )


def test_a_job_that_was_given_up_is_no_record() -> None:
    assert jobs.unpack_record(jobs.GIVEN_UP) is None


def test_fields_of_a_later_version_are_ignored() -> None:
    assert jobs.unpack_record(msgpack.packb((jobs.VERSION, *RECORD, "new"))) == RECORD


@given(st.lists(st.text(max_size=20), min_size=1, max_size=30), st.data())
def test_the_items_of_a_job_hold_its_inputs_in_order(inputs: list[str], data: st.DataObject) -> None:
    cuts = data.draw(st.sets(st.integers(1, len(inputs) - 1))) if len(inputs) > 1 else set()
    record = RECORD._replace(starts=[0, *sorted(cuts)], total=len(inputs))
    made = jobs.work_items(record, [*inputs])
    assert [one for item in made for one in item.inputs] == inputs
    assert [jobs.item_place(item.item_id) for item in made] == [("job_1", n) for n in range(len(made))]
    assert {(item.klass, item.is_job, item.content_hash) for item in made} == {(BULK, True, "sha256:1")}
    assert [items.unpack_item(items.pack_item(item)) for item in made] == made


def test_a_result_carries_its_inputs_errors() -> None:
    result = WorkResult("job.job_1.0", "h", [b"v", b""], [3, 4], [], errors=((1, "not_finite", "NaN."),))
    (back,) = items.unpack_results(items.pack_results([result]))
    assert back == result


def test_a_result_of_an_earlier_version_has_no_errors() -> None:
    row: tuple[object, ...] = ("g.1", "h", [b"v"], [3], [], "", "", -1)
    (back,) = items.unpack_results(items.pack_results([row]))  # type: ignore[list-item]
    assert back.errors == ()
