from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from appliance.runtimes.layout import Layout

INPUTS = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=9), min_size=1, max_size=9)


@given(INPUTS)
def test_every_token_is_in_its_place(inputs: list[list[int]]) -> None:
    flat = np.array([i for ids in inputs for i in ids], dtype=np.int32)
    layout = Layout([len(one) for one in inputs])
    longest = max(map(len, inputs))
    rows = [one + [0] * (longest - len(one)) for one in inputs]
    assert layout.padded(flat).tolist() == rows
    assert layout.mask().tolist() == [[1] * len(one) + [0] * (longest - len(one)) for one in inputs]
    assert layout.lengths.tolist() == list(map(len, inputs))
    assert layout.positions().tolist() == [position for one in inputs for position in range(len(one))]
    assert layout.flat(np.array(rows)).tolist() == flat.tolist()


@given(INPUTS)
def test_what_is_gathered_into_rows_is_found_there_again(inputs: list[list[int]]) -> None:
    flat = np.array([i for ids in inputs for i in ids], dtype=np.int32)
    layout = Layout([len(one) for one in inputs])
    rows = flat[layout.slots()]
    for row, one in zip(rows, inputs, strict=True):
        assert row[: len(one)].tolist() == one
    assert rows.reshape(-1)[layout.places()].tolist() == flat.tolist()
    parts = (layout.slots(), layout.places(), layout.positions(), layout.lengths, layout.mask(), layout.padded(flat))
    assert {part.dtype for part in parts} == {np.dtype(np.int32)}
