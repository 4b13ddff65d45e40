from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tokenizers

from appliance.errors import CorruptModel
from appliance.models.manifest import read_manifest
from appliance.models.tokenizer import Tokenizer, WordTokenizer

from .conftest import FIXTURES
from .making import edit_json, fake_model

TEXTS = ["The tenant shall pay rent.", "", "Café 你好 0042", "permission " * 300]


@pytest.fixture
def bert() -> Tokenizer:
    return Tokenizer.from_file(FIXTURES / "bert-embed" / "tokenizer.json")


def test_ids_are_whole_whatever_truncation_and_padding_the_file_carries(published: Path, bert: Tokenizer) -> None:
    path = published / "tokenizer.json"
    library = tokenizers.Tokenizer.from_file(str(path))
    library.enable_truncation(4)
    library.enable_padding(length=64)
    library.save(str(path))
    assert Tokenizer.from_file(path).encode(TEXTS) == bert.encode(TEXTS)
    assert len(bert.encode(TEXTS)[3]) > 300


def test_one_text_gives_the_same_ids_as_many(bert: Tokenizer) -> None:
    assert [bert.encode([text])[0] for text in TEXTS] == bert.encode(TEXTS)
    assert bert.encode([]) == []


def test_special_tokens_typed_by_a_user_are_plain_text(bert: Tokenizer) -> None:
    (ids,) = bert.encode(["rent [SEP] tenant [CLS] [MASK] [PAD]"])
    assert ids[0] == 2
    assert ids[-1] == 3
    assert not {0, 2, 3, 4} & set(ids[1:-1])


def test_prefix_and_suffix_are_discovered(bert: Tokenizer) -> None:
    assert (bert.prefix, bert.suffix, bert.special_count) == ([2], [3], 2)
    assert bert.vocab_size == 1200


@pytest.mark.parametrize(
    ("ids", "wrapped"),
    [
        ([7, 8], [2, 7, 8, 3]),
        ([2, 7, 3], [2, 7, 3]),
        ([2, 7], [2, 2, 7, 3]),
        ([], [2, 3]),
        ([2], [2, 2, 3]),
        ([2, 3], [2, 3]),
    ],
)
def test_ids_are_wrapped_unless_they_are_already(bert: Tokenizer, ids: list[int], wrapped: list[int]) -> None:
    assert bert.wrap(ids) == wrapped


@pytest.mark.parametrize("limit", [2, 3, 10, 128, 1000])
def test_truncation_is_that_of_the_library(bert: Tokenizer, limit: int) -> None:
    library = tokenizers.Tokenizer.from_file(str(FIXTURES / "bert-embed" / "tokenizer.json"))
    library.enable_truncation(limit)
    assert [bert.truncate(ids, limit) for ids in bert.encode(TEXTS)] == [library.encode(text).ids for text in TEXTS]


def test_truncation_to_less_than_the_special_tokens_is_refused(bert: Tokenizer) -> None:
    with pytest.raises(ValueError, match="special tokens"):
        bert.truncate([2, 7, 3], 1)


def test_a_tokenizer_without_special_tokens_wraps_nothing(published: Path) -> None:
    edit_json(published / "tokenizer.json", post_processor=None)
    plain = Tokenizer.from_file(published / "tokenizer.json")
    assert plain.special_count == 0
    assert plain.wrap([7, 8]) == [7, 8]
    assert plain.truncate([7, 8, 9], 2) == [7, 8]


@pytest.mark.parametrize("content", ["", "{}", "<html>", '{"model": 1}'])
def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(CorruptModel, match=r"tokenizer\.json"):
        Tokenizer.from_file(tmp_path / "tokenizer.json")


def test_a_fake_model_without_tokenizer_counts_words(tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(read_manifest(fake_model(tmp_path)))
    assert isinstance(tokenizer, WordTokenizer)
    first, second, empty = tokenizer.encode(["one two one", "two", ""])
    assert first[1] == first[3]
    assert second == [1, first[2], 2]
    assert empty == [1, 2]
    assert all(10 <= token < 1000 for token in first[1:-1])
    assert tokenizer.truncate(first, 3) == [1, first[1], 2]


def test_a_single_short_text_starts_no_threads() -> None:
    code = (
        "import os, sys; from pathlib import Path; from appliance.models.tokenizer import Tokenizer;"
        "t = Tokenizer.from_file(Path(sys.argv[1])); before = len(os.listdir('/proc/self/task'));"
        "t.encode(['hello']); print(len(os.listdir('/proc/self/task')) - before)"
    )
    command = [sys.executable, "-c", code, str(FIXTURES / "bert-embed" / "tokenizer.json")]
    environment = {key: value for key, value in os.environ.items() if key != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "0"
