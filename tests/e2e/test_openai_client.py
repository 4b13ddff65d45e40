"""OpenAI's own Python client, unmodified."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests import golden
from tests.golden import MODEL, assert_close
from tests.harness import Appliance

GOLDEN = golden.minilm()


@pytest.fixture(scope="module")
def client(office: Appliance) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{office.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_it_embeds_by_its_own_default_encoding(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model=MODEL, input=GOLDEN.texts[:3])
    assert_close([entry.embedding for entry in answer.data], GOLDEN.vectors[:3])
    assert [entry.index for entry in answer.data] == [0, 1, 2]
    assert answer.model == MODEL
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0


def test_it_embeds_floats_and_fewer_dimensions(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model=MODEL, input=GOLDEN.texts[0], encoding_format="float", dimensions=64)
    assert_close([answer.data[0].embedding], [GOLDEN.vectors[0][:64]])


def test_it_embeds_token_ids(client: openai.OpenAI) -> None:
    one = client.embeddings.create(model=MODEL, input=[7592, 2088])
    other = client.embeddings.create(model=MODEL, input="hello world")
    assert_close([one.data[0].embedding], [other.data[0].embedding])


def test_it_lists_and_retrieves_models(client: openai.OpenAI) -> None:
    assert MODEL in [model.id for model in client.models.list()]
    assert client.models.retrieve(MODEL).id == MODEL
    assert client.models.retrieve(f"sentence-transformers/{MODEL}").id == MODEL


def test_its_error_classes_fit(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        client.embeddings.create(model="gpt-5", input="x")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-5")
    with pytest.raises(openai.BadRequestError) as bad:
        client.embeddings.create(model=MODEL, input=["fine", "word " * 300])
    assert (bad.value.code, bad.value.param) == ("input_too_long", "input[1]")
