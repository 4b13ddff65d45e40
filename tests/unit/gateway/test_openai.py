from __future__ import annotations

from typing import Any

import pytest

from appliance.errors import BadRequest
from appliance.gateway.openai import inputs_of

VOCAB = 1000


@pytest.mark.parametrize(
    ("value", "inputs"),
    [
        ("text", ["text"]),
        ("", [""]),
        ([""], [""]),
        (["a", "", "b"], ["a", "", "b"]),
        ([1, 2, 3], [[1, 2, 3]]),
        ([[1, 2], [3]], [[1, 2], [3]]),
        ([[]], [[]]),
        ([[], [1]], [[], [1]]),
        ([0, VOCAB - 1], [[0, VOCAB - 1]]),
    ],
)
def test_every_documented_shape_is_taken(value: Any, inputs: list[Any]) -> None:
    assert inputs_of({"input": value}, 8, VOCAB) == inputs


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": None}, "input"),
        ({"input": 5}, "input"),
        ({"input": True}, "input"),
        ({"input": {}}, "input"),
        ({"input": []}, "input"),
        ({"input": [None]}, "input[0]"),
        ({"input": [1.5]}, "input[0]"),
        ({"input": [True]}, "input[0]"),
        ({"input": [{"a": 1}]}, "input[0]"),
        ({"input": ["a", None]}, "input[1]"),
        ({"input": ["a", 1]}, "input[1]"),
        ({"input": ["a", [1]]}, "input[1]"),
        ({"input": [[1], "a"]}, "input[1]"),
        ({"input": [[1], [2.0]]}, "input[1]"),
        ({"input": [[1], [True]]}, "input[1]"),
        ({"input": [[[1]]]}, "input[0]"),
        ({"input": [1, "a"]}, "input"),
        ({"input": [1, None]}, "input"),
        ({"input": [-1]}, "input"),
        ({"input": [VOCAB]}, "input"),
        ({"input": [[0], [VOCAB]]}, "input[1]"),
        ({"input": [2**63]}, "input"),
        ({"input": ["a"] * 9}, "input"),
        ({"input": [[1]] * 9}, "input"),
    ],
)
def test_every_other_shape_is_refused_with_the_place(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        inputs_of(fields, 8, VOCAB)
    assert caught.value.param == param


def test_one_input_of_many_ids_is_not_many_inputs() -> None:
    assert inputs_of({"input": [1] * 100}, 8, VOCAB) == [[1] * 100]
