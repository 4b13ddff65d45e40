from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.errors import BY_CODE, ApplianceError, InputTooLong, Internal
from appliance.wire import items
from appliance.wire.items import WorkItem, WorkResult
from appliance.wire.subjects import CLASSES, INTERACTIVE

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
IDS = st.lists(st.integers(0, 2**31 - 1), max_size=5)
OPTIONS = st.lists(st.tuples(TEXT, st.integers(0, 4096) | TEXT | st.booleans()), max_size=3).map(tuple)
ITEMS = st.builds(
    WorkItem,
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    OPTIONS,
    TEXT,
    st.lists(TEXT | IDS, max_size=5),
    st.booleans(),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.sampled_from(CLASSES),
    TEXT,
)
RESULTS = st.builds(
    WorkResult,
    TEXT,
    TEXT,
    st.lists(st.binary(max_size=20), max_size=4),
    st.lists(st.integers(0, 9999), max_size=4),
    st.lists(st.integers(0, 9999), max_size=4),
    TEXT,
    TEXT,
    st.integers(-1, 4),
    st.lists(st.tuples(st.integers(0, 9999), TEXT, TEXT), max_size=3).map(tuple),
)


@given(ITEMS)
def test_an_item_round_trips(item: WorkItem) -> None:
    assert items.unpack_item(items.pack_item(item)) == item


@given(st.lists(RESULTS, max_size=4))
def test_results_round_trip(results: list[WorkResult]) -> None:
    assert items.unpack_results(items.pack_results(results)) == results


@given(ITEMS, st.lists(st.integers().filter(lambda n: abs(n) < 2**60) | TEXT, min_size=1, max_size=3))
def test_fields_of_a_newer_version_are_ignored(item: WorkItem, extra: list[int | str]) -> None:
    fields = msgpack.unpackb(items.pack_item(item))
    assert items.unpack_item(msgpack.packb([*fields, *extra])) == item


@given(ITEMS)
def test_an_item_of_an_older_version_is_interactive_and_tells_no_cost(item: WorkItem) -> None:
    older = msgpack.packb(msgpack.unpackb(items.pack_item(item))[:10])
    assert items.unpack_item(older) == item._replace(cost=0, klass=INTERACTIVE, content_hash="")


@given(RESULTS, st.lists(TEXT, min_size=1, max_size=3))
def test_result_fields_of_a_newer_version_are_ignored(result: WorkResult, extra: list[str]) -> None:
    version, rows = msgpack.unpackb(items.pack_results([result]))
    newer = msgpack.packb([version, [[*rows[0], *extra]], *extra])
    assert items.unpack_results(newer) == [result]


def test_the_version_comes_first() -> None:
    assert msgpack.unpackb(items.pack_results([]))[0] == items.VERSION


@pytest.mark.parametrize("body", [b"", b"\xc1", msgpack.packb({"a": 1}), msgpack.packb([1, 2]), msgpack.packb(None)])
def test_what_is_no_item_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - msgpack's own messages differ by kind of garbage
        items.unpack_item(body)


@pytest.mark.parametrize("cls", set(BY_CODE.values()), ids=lambda cls: cls.__name__)
def test_an_error_survives_the_way_back(cls: type[ApplianceError]) -> None:
    result = items.unpack_results(items.pack_results([items.failure("i", cls("Because."), 2)]))[0]
    error = result.error()
    assert type(error) is cls
    assert (error.message, result.failed_input, result.outputs) == ("Because.", 2, [])


def test_an_unknown_error_of_a_newer_version_is_internal() -> None:
    assert type(WorkResult("i", "", [], [], [], "from_the_future", "?").error()) is Internal


def test_a_success_has_no_error() -> None:
    assert WorkResult("i", "h", [b"x"], [1], []).error() is None
    assert items.failure("i", InputTooLong("Long.")).failed_input == -1
