from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.wire import frames
from appliance.wire.frames import BatchDone, BatchFailed, Frame, LoadModel, ModelLoaded, RunBatch, StartEngine

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
COUNT = st.integers(0, 2**40)
SECONDS = st.floats(0, 1e6)
OPTIONS = st.lists(st.tuples(TEXT, COUNT | TEXT | st.booleans()), max_size=3).map(tuple)
FRAMES = st.one_of(
    st.builds(StartEngine, TEXT, TEXT, COUNT, COUNT, TEXT, st.booleans()),
    st.builds(LoadModel, TEXT, TEXT),
    st.builds(ModelLoaded, TEXT, SECONDS, COUNT, TEXT),
    st.builds(RunBatch, COUNT, TEXT, TEXT, OPTIONS, TEXT, st.lists(COUNT, max_size=5), st.binary(max_size=40)),
    st.builds(
        BatchDone,
        COUNT,
        SECONDS,
        st.lists(st.binary(max_size=20), max_size=4),
        st.dictionaries(st.integers(0, 99), st.tuples(TEXT, TEXT).map(list), max_size=3),
    ),
    st.builds(BatchFailed, COUNT, TEXT, TEXT),
)


@given(FRAMES)
def test_a_frame_round_trips(frame: Frame) -> None:
    packed = frames.pack(frame)
    header, body = packed[: frames.HEADER_BYTES], packed[frames.HEADER_BYTES :]
    assert frames.length(header) == len(body)
    assert frames.unpack(body) == frame


def test_options_stay_a_key_of_a_batch() -> None:
    frame = RunBatch(1, "m", "embed", (("dimensions", 8),), "", [2], b"\0" * 8, True)
    again = frames.unpack(frames.pack(frame)[frames.HEADER_BYTES :])
    assert isinstance(again, RunBatch)
    assert hash(again.options) == hash(frame.options)


def test_a_length_that_no_frame_has_is_refused() -> None:
    with pytest.raises(ValueError, match="frame of"):
        frames.length(struct.pack("<I", frames.MAX_FRAME_BYTES + 1))
