from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from appliance.wire import subjects

NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
TOKEN = re.compile(r"[A-Za-z0-9_=-]+")


@given(NAME, NAME)
def test_two_models_share_a_lane_only_where_their_names_differ_in_case_alone(one: str, other: str) -> None:
    assert (subjects.lane(one) == subjects.lane(other)) == (one.lower() == other.lower())


@given(NAME)
def test_a_lane_is_one_token_that_the_broker_takes(name: str) -> None:
    lane = subjects.lane(name)
    assert TOKEN.fullmatch(lane)
    assert subjects.lane_subject(lane).count(".") == 1


def test_names_that_escaping_could_confuse_stay_apart() -> None:
    names = ["a.b", "a/b", "a=2eb", "a=2Eb", "a-b", "a_b", "a b", "a--b", "a.b.", ".a.b"]
    lanes = {subjects.lane(name) for name in names}
    assert len(lanes) == len({name.lower() for name in names})


def test_classes_have_lanes_of_their_own() -> None:
    assert subjects.lane("m") == "interactive-m"
    assert subjects.lane("m", "bulk") != subjects.lane("m")
