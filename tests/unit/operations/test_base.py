from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.operations import base


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=9), min_size=1, max_size=9))
def test_padding_keeps_every_id_in_its_place(inputs: list[list[int]]) -> None:
    flat = np.array([i for ids in inputs for i in ids], dtype=np.int32)
    ids, mask = base.pad([len(one) for one in inputs], flat)
    longest = max(map(len, inputs))
    assert ids.tolist() == [one + [0] * (longest - len(one)) for one in inputs]
    assert mask.tolist() == [[1] * len(one) + [0] * (longest - len(one)) for one in inputs]
    assert ids.dtype == mask.dtype == np.dtype(np.int32)


def test_an_unknown_operation_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        base.create("dream", {})
