from __future__ import annotations

import pytest

from appliance.worker.room import Tenant, evicted


def tenant(
    name: str, unused_s: float = 60.0, *, size: int = 100, stayed_s: float = 60.0, pinned: bool = False
) -> Tenant:
    return Tenant(name, size, load_s=0.5, stayed_s=stayed_s, unused_s=unused_s, is_pinned=pinned)


def test_nobody_goes_where_there_is_room() -> None:
    assert evicted([tenant("a")], 0, waited_s=100.0, load_s=0.5) == []


def test_the_one_used_longest_ago_goes_first_and_no_more_than_needed() -> None:
    tenants = [tenant("recent", 10.0), tenant("old", 50.0), tenant("older", 55.0)]
    assert evicted(tenants, 100, waited_s=0.0, load_s=0.5) == ["older"]
    assert evicted(tenants, 101, waited_s=0.0, load_s=0.5) == ["older", "old"]


@pytest.mark.parametrize("stays", [tenant("pinned", pinned=True), tenant("new", stayed_s=0.9)])
def test_pinned_and_new_ones_stay_whoever_waits(stays: Tenant) -> None:
    assert evicted([stays], 50, waited_s=float("inf"), load_s=0.5) is None
    assert evicted([stays, tenant("other", 5.0)], 50, waited_s=0.0, load_s=0.5) == ["other"]


def test_one_at_work_goes_only_for_somebody_who_has_waited_longer_than_the_loads_take() -> None:
    at_work = tenant("at work", 0.0)
    assert evicted([at_work], 50, waited_s=1.9, load_s=0.5) is None
    assert evicted([at_work], 50, waited_s=2.0, load_s=0.5) == ["at work"]


def test_nobody_goes_in_vain() -> None:
    assert evicted([tenant("a"), tenant("b", pinned=True)], 150, waited_s=100.0, load_s=0.5) is None
