"""The real model's answers, by every way of asking, against what PyTorch computed."""

from __future__ import annotations

import asyncio
import base64
import random
import struct

import pytest

from appliance.models.catalog import Catalog
from appliance.models.tokenizer import Tokenizer
from tests import golden
from tests.client import Client, embed, talk
from tests.golden import MODEL, assert_close
from tests.harness import Appliance

GOLDEN = golden.minilm()


def ids_of(office: Appliance, text: str) -> list[int]:
    catalog = Catalog(office.models)
    catalog.scan()
    model = catalog.resolve(MODEL)
    assert model is not None
    return Tokenizer.load(model).encode([text])[0]


@pytest.mark.parametrize("index", range(len(GOLDEN.texts)))
def test_each_text_alone(office: Appliance, index: int) -> None:
    reply = embed(office.url, GOLDEN.texts[index], MODEL, truncate=True)
    assert_close(reply.vectors, [GOLDEN.vectors[index]])


def test_all_texts_in_one_list(office: Appliance) -> None:
    assert_close(embed(office.url, GOLDEN.texts, MODEL, truncate=True).vectors, GOLDEN.vectors)


@pytest.mark.parametrize("is_wrapped", [True, False], ids=["with special tokens", "without"])
def test_all_texts_as_token_ids(office: Appliance, is_wrapped: bool) -> None:
    ids = [ids_of(office, text) for text in GOLDEN.texts]
    sent = ids if is_wrapped else [one[1:-1] for one in ids]
    reply = embed(office.url, sent, MODEL, truncate=True)
    assert_close(reply.vectors, GOLDEN.vectors)
    assert reply.json()["usage"]["prompt_tokens"] == sum(min(256, len(one)) for one in ids)


def test_one_text_as_a_flat_list_of_token_ids(office: Appliance) -> None:
    assert_close(embed(office.url, ids_of(office, GOLDEN.texts[0]), MODEL).vectors, [GOLDEN.vectors[0]])


def test_all_texts_while_64_others_ask(office: Appliance) -> None:
    words = " ".join(GOLDEN.texts).split()

    async def conversation(client: Client) -> list[list[list[float]]]:
        is_over = False

        async def other(number: int) -> None:
            chance = random.Random(number)
            while not is_over:
                text = " ".join(chance.choices(words, k=chance.randint(1, 40)))
                assert (await client.embed(text, MODEL)).status == 200

        others = [asyncio.ensure_future(other(number)) for number in range(64)]
        try:
            alone = [await client.vector(text, MODEL, truncate=True) for text in GOLDEN.texts]
            together = (await client.embed(GOLDEN.texts, MODEL, truncate=True)).vectors
        finally:
            is_over = True
            await asyncio.gather(*others)
        return [alone, together]

    for vectors in talk(office.url, conversation):
        assert_close(vectors, GOLDEN.vectors)


def test_64_distinct_texts_in_one_call_are_in_order(office: Appliance) -> None:
    words = " ".join(GOLDEN.texts).split()
    texts = [" ".join(words[n : n + 1 + n % 30]) + f" {n}" for n in range(64)]

    async def conversation(client: Client) -> list[list[float]]:
        return [await client.vector(text, MODEL) for text in texts]

    assert_close(embed(office.url, texts, MODEL).vectors, talk(office.url, conversation))


def test_2048_inputs_in_one_call_are_in_order(office: Appliance) -> None:
    texts = [f"entry {n}" for n in range(2048)]
    reply = embed(office.url, texts, MODEL)
    vectors = reply.vectors
    assert len(vectors) == 2048
    for index in (0, 1, 31, 32, 1000, 2047):
        assert_close([vectors[index]], embed(office.url, texts[index], MODEL).vectors)


def test_floats_and_base64_are_the_same_bytes(office: Appliance) -> None:
    floats = embed(office.url, GOLDEN.texts[:3], MODEL, encoding_format="float").vectors
    packed = embed(office.url, GOLDEN.texts[:3], MODEL, encoding_format="base64").vectors
    for one, other in zip(floats, packed, strict=True):
        assert isinstance(other, str)
        assert base64.b64decode(other, validate=True) == struct.pack(f"<{len(one)}f", *one)


@pytest.mark.parametrize("dimensions", [1, 2, 64, 383, 384])
def test_a_cut_vector_is_the_beginning_renormalised(office: Appliance, dimensions: int) -> None:
    (vector,) = embed(office.url, GOLDEN.texts[0], MODEL, dimensions=dimensions).vectors
    assert len(vector) == dimensions
    assert sum(value * value for value in vector) == pytest.approx(1, abs=1e-5)
    assert_close([vector], [GOLDEN.vectors[0][:dimensions]])


def test_a_blank_item_is_the_empty_sequence_alone_and_in_a_list(office: Appliance) -> None:
    empty = GOLDEN.vectors[GOLDEN.texts.index("")]
    blanks: tuple[str | list[list[int]], ...] = ("", " ", "\t\n", [[]])
    for blank in blanks:
        assert_close(embed(office.url, blank, MODEL).vectors, [empty])
    neighbours = embed(office.url, ["ok", "", "ok2", " "], MODEL).vectors
    alone = [embed(office.url, text, MODEL).vectors[0] for text in ("ok", "ok2")]
    assert_close(neighbours, [alone[0], empty, alone[1], empty])


def test_special_tokens_typed_by_a_user_are_text(office: Appliance) -> None:
    (typed,) = embed(office.url, "one [SEP] two", MODEL).vectors
    ids = ids_of(office, "one [SEP] two")
    assert ids.count(102) == 1  # the end of the sequence alone
    assert_close([typed], embed(office.url, ids, MODEL).vectors)


@pytest.mark.parametrize("times", [260, 2600, 26000])
def test_an_input_that_is_too_long_is_refused_with_both_lengths_or_cut_and_told(office: Appliance, times: int) -> None:
    text = "word " * times
    refused = embed(office.url, ["fine", text], MODEL)
    assert (refused.status, refused.error["code"], refused.error["param"]) == (400, "input_too_long", "input[1]")
    assert f"{times + 2} tokens" in refused.error["message"]
    assert "256" in refused.error["message"]
    cut = embed(office.url, ["fine", text], MODEL, truncate=True)
    assert cut.headers["x-truncated-inputs"] == "1"
    assert cut.json()["usage"]["prompt_tokens"] == 3 + 256
    assert_close([cut.vectors[1]], embed(office.url, "word " * 254, MODEL).vectors)


def test_nothing_is_said_of_truncation_where_nothing_was_cut(office: Appliance) -> None:
    assert "x-truncated-inputs" not in embed(office.url, "word " * 254, MODEL, truncate=True).headers
