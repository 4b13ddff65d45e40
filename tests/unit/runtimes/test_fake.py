from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.models.model import FakeSettings
from appliance.runtimes import base
from appliance.runtimes.base import Floats
from appliance.runtimes.fake import FakeSession

INPUTS = st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=9), min_size=1, max_size=8)
FAILING = 77


def session(settings: FakeSettings | None = None, fail_id: int = -1) -> base.Session:
    return FakeSession({**asdict(settings or FakeSettings()), "fail_id": fail_id, "dimensions": 16})


def vectors(inputs: list[list[int]], one: base.Session | None = None) -> Floats:
    flat = np.array([i for ids in inputs for i in ids], dtype=np.int32)
    return (one or session()).run([len(ids) for ids in inputs], flat)["pooled"]


@given(INPUTS)
def test_vectors_are_the_same_whatever_the_company(inputs: list[list[int]]) -> None:
    together = vectors(inputs)
    for row, ids in enumerate(inputs):
        assert together[row].tolist() == vectors([ids])[0].tolist()


@given(st.lists(st.integers(1, 99), min_size=1, max_size=9), st.lists(st.integers(1, 99), min_size=1, max_size=9))
def test_other_ids_have_other_vectors(one: list[int], other: list[int]) -> None:
    assert (one == other) == (vectors([one]).tolist() == vectors([other]).tolist())


def test_vectors_are_finite_and_small() -> None:
    made = vectors([[n] for n in range(1, 300)])
    assert np.abs(made).max() <= 1
    assert len({tuple(row) for row in made.tolist()}) == 299


def test_nan_is_for_the_failing_row_alone() -> None:
    made = vectors([[1, 2], [3, FAILING], [4]], session(FakeSettings(fail_mode="nan"), FAILING))
    assert np.isnan(made).all(axis=1).tolist() == [False, True, False]


def test_a_scripted_error_fails_the_whole_pass() -> None:
    with pytest.raises(RuntimeError, match="scripted"):
        vectors([[1], [FAILING]], session(FakeSettings(fail_mode="error"), FAILING))


def test_an_unknown_runtime_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        base.create("abacus")
