from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.operations import base
from appliance.operations.embed import Embed
from appliance.runtimes.base import Floats
from tests.fakes import FakeSession

WIDTH = 8


def states_of(lengths: list[int], seed: int = 1) -> list[Floats]:
    random = np.random.default_rng(seed)
    return [random.standard_normal((length, WIDTH)).astype(np.float32) for length in lengths]


def naive(states: Floats, pooling: str, dimensions: int, normalize: bool) -> list[float]:
    """One input by hand, in Python's own floats."""
    rows = states.tolist()
    vector = rows[0] if pooling == "cls" else [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    vector = vector[: dimensions or None]
    if not (normalize or dimensions):
        return vector
    norm = sum(value * value for value in vector) ** 0.5
    return [value / norm for value in vector]


def run(states: list[Floats], embed: Embed, options: base.Options = ()) -> base.Outcome:
    lengths = [len(one) for one in states]
    return embed.run(FakeSession(states), lengths, np.ones(sum(lengths), dtype=np.int32), options)


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=8),
    st.sampled_from(["mean", "cls"]),
    st.booleans(),
    st.sampled_from([0, 1, 3, WIDTH]),
    st.integers(0, 99),
)
def test_vectors_equal_those_by_hand_whatever_shares_the_batch(
    lengths: list[int], pooling: str, normalize: bool, dimensions: int, seed: int
) -> None:
    states = states_of(lengths, seed)
    options = (("dimensions", dimensions),) if dimensions else ()
    outcome = run(states, Embed(pooling, normalize), options)
    assert outcome.errors == {}
    for one, output in zip(states, outcome.outputs, strict=True):
        vector = np.frombuffer(output, dtype="<f4")
        np.testing.assert_allclose(vector, naive(one, pooling, dimensions, normalize), rtol=1e-4, atol=1e-5)


def test_a_cut_vector_is_of_length_one_even_where_the_model_does_not_normalise() -> None:
    outcome = run(states_of([3, 5]), Embed("mean", False), (("dimensions", 4),))
    for output in outcome.outputs:
        assert len(output) == 4 * 4
        assert np.linalg.norm(np.frombuffer(output, dtype="<f4")) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_output_that_is_not_finite_is_reported_for_its_input_alone(value: float) -> None:
    states = states_of([4, 4, 4])
    states[1][2, 3] = value
    with np.errstate(invalid="ignore"):
        outcome = run(states, Embed("mean", True))
    assert list(outcome.errors) == [1]
    assert outcome.errors[1][0] == "not_finite"
    np.testing.assert_allclose(
        np.frombuffer(outcome.outputs[2], dtype="<f4"), naive(states[2], "mean", 0, True), rtol=1e-4, atol=1e-5
    )


def test_a_vector_of_zeros_stays_one_and_is_finite() -> None:
    outcome = run([np.zeros((3, WIDTH), dtype=np.float32)], Embed("mean", True))
    assert outcome.errors == {}
    assert not np.frombuffer(outcome.outputs[0], dtype="<f4").any()


def test_the_table_makes_it_by_name() -> None:
    settings: dict[str, Any] = {"pooling": "cls", "normalize": False}
    assert isinstance(base.create("embed", settings), Embed)
