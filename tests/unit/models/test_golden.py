from __future__ import annotations

import math
from pathlib import Path

import pytest

from appliance.errors import CorruptModel, ModelError
from appliance.models.golden import Golden, GoldenInput, check, check_tokens, read_golden, write_golden
from appliance.models.tokenizer import WordTokenizer

TOKENIZER = WordTokenizer(1000)
TEXTS = ["one two", 'quote " and \u2028 line', ""]
VECTORS = [[0.6, 0.8], [1.0, 0.0], [0.0, 1.0]]
GOLDEN = Golden(
    "embed",
    0.9999,
    tuple(GoldenInput(*entry) for entry in zip(TEXTS, TOKENIZER.encode(TEXTS), VECTORS, strict=True)),
)


def test_what_is_written_reads_back_equal(tmp_path: Path) -> None:
    write_golden(GOLDEN, tmp_path)
    assert read_golden(tmp_path) == GOLDEN


def test_the_expected_vectors_pass_whatever_their_length() -> None:
    check(GOLDEN, lambda batch: [[10 * value for value in vector] for vector in VECTORS])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ([0.7, 0.714], "input 1 has cosine 0.700"),
        ([math.nan, 0.0], "input 1 has cosine nan"),
        ([math.inf, -math.inf], "input 1 has cosine nan"),
        ([1e308, 1e308], "input 1 has cosine nan"),
        ([0.0, 0.0], "input 1 has cosine nan"),
        ([1.0], "input 1 has cosine nan"),
    ],
)
def test_the_worst_answer_is_named(wrong: list[float], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        check(GOLDEN, lambda batch: [[0.61, 0.8], wrong, VECTORS[2]])


def test_a_missing_answer_is_told() -> None:
    with pytest.raises(ModelError, match="3 inputs gave 2 vectors"):
        check(GOLDEN, lambda batch: VECTORS[:2])


def test_another_tokenizer_is_noticed() -> None:
    check_tokens(GOLDEN, TOKENIZER)
    with pytest.raises(ModelError, match="input 0 gives other tokens"):
        check_tokens(GOLDEN, WordTokenizer(900))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1, "operation": "embed"}', "\x80"])
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "golden.json").write_text(content, encoding="latin-1")
    with pytest.raises(CorruptModel, match=r"golden\.json"):
        read_golden(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptModel, match=r"golden\.json: No such file"):
        read_golden(tmp_path)
