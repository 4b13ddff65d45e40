"""OpenAI's interface: POST /v1/embeddings, GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

import struct
from binascii import b2a_base64
from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from appliance.config import Server
from appliance.errors import BadRequest, ModelNotFound, OperationNotSupported
from appliance.gateway.asking import Answer, Input, Question
from appliance.gateway.body import Fields, Room, kind_of, read_json
from appliance.gateway.fleet import Fleet
from appliance.gateway.joining import Joining
from appliance.gateway.note import NOTE, Note
from appliance.gateway.render import json_response
from appliance.gateway.terms import Terms, terms_of
from appliance.models.catalog import Catalog, Model

MAX_TRUNCATED_LISTED = 100


class OpenAI:
    """The handlers. Limits and timeouts are the server's settings."""

    def __init__(self, catalog: Catalog, fleet: Fleet, joining: Joining, room: Room, server: Server) -> None:
        self._catalog = catalog
        self._fleet = fleet
        self._joining = joining
        self._room = room
        self._server = server

    def posted(self) -> dict[str, Handler]:
        """What is asked most, by its path: handlers of POST."""
        return {"/v1/embeddings": self.embeddings}

    def routes(self) -> list[web.RouteDef]:
        return [
            *(web.post(path, handler) for path, handler in self.posted().items()),
            web.get("/v1/models", self.models),
            web.get("/v1/models/{model_id:.+}", self.model),
        ]

    async def embeddings(self, request: web.Request) -> web.Response:
        """Embed strings or token arrays. Unknown fields are ignored, as OpenAI's own servers do."""
        body, fields = await read_json(request, self._server.body_timeout_s, self._room)
        question, encode = self.question(fields, terms_of(request, body, self._server))
        answer = await self._joining.ask(question)
        note: Note = request[NOTE]
        note.model, note.inputs, note.tokens = question.model.name, len(answer.outputs), sum(answer.tokens)
        return _embeddings(question.model.name, answer, note.tokens, encode)

    def question(self, fields: Fields, terms: Terms) -> tuple[Question, Callable[[bytes], Any]]:
        """Return what a body asks, and how its outputs are to be written. Raises what a bad request is told."""
        model = self._model(fields.get("model"))
        if "embed" not in model.operations or model.embed is None:
            raise OperationNotSupported(
                f"{model.name} does not do embed; it does {', '.join(model.operations)}.", param="model"
            )
        self._fleet.require_usable(model.name)
        inputs = inputs_of(fields, self._server.max_inputs, model.limits.vocab_size)
        dimensions = _dimensions(fields.get("dimensions"), model.name, model.embed.dimensions)
        options = (("dimensions", dimensions),) if dimensions else ()
        truncate = fields.get("truncate", False)
        if not isinstance(truncate, bool):
            raise BadRequest(f"truncate must be true or false, not {kind_of(truncate)}.", param="truncate")
        return Question(model, "embed", options, inputs, terms, truncate), _encoding(fields.get("encoding_format"))

    def _model(self, name: Any) -> Model:
        if not isinstance(name, str):
            raise BadRequest(f"model must be a string, not {kind_of(name)}.", param="model")
        model = self._catalog.resolve(name)
        if model is None:
            raise ModelNotFound(
                f"The model {name[:200]!r} is not here. GET /v1/models lists those that are.", param="model"
            )
        return model

    async def models(self, request: web.Request) -> web.Response:
        return json_response({"object": "list", "data": [_described(model) for model in self._catalog.models]})

    async def model(self, request: web.Request) -> web.Response:
        return json_response(_described(self._model(request.match_info["model_id"])))


def _described(model: Model) -> dict[str, Any]:
    created = int(model.imported_at.timestamp()) if model.imported_at else 0
    return {
        "id": model.name,
        "object": "model",
        "created": created,
        "owned_by": "appliance",
        "aliases": model.aliases,
        "operations": model.operations,
        "max_tokens": model.limits.max_tokens,
        "dimensions": model.embed.dimensions if model.embed else None,
    }


def inputs_of(fields: Fields, max_inputs: int, vocab_size: int) -> list[Input]:
    """Return the inputs of a request: a string, strings, token ids, or lists of token ids. Raises BadRequest.

    An empty text is an input like any other: its vector is that of the tokenizer's empty sequence.
    """
    value = fields.get("input")
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise BadRequest(f"input must be a string or an array, not {kind_of(value)}.", param="input")
    if not value:
        raise BadRequest("input is an empty array; it must hold at least one text.", param="input")
    if type(value[0]) is int:
        _check_ids(value, "input", vocab_size)
        return [value]
    if len(value) > max_inputs:
        raise BadRequest(f"input has {len(value)} entries; the limit is {max_inputs} a request.", param="input")
    expected: type = str if isinstance(value[0], str) else list
    for index, one in enumerate(value):
        if not isinstance(one, expected):
            raise BadRequest(
                f"input[{index}] must be {'a string' if expected is str else 'a string or an array of token ids'}, "
                f"not {kind_of(one)}.",
                param=f"input[{index}]",
            )
        if isinstance(one, list):
            _check_ids(one, f"input[{index}]", vocab_size)
    return value


def _check_ids(ids: list[Any], param: str, vocab_size: int) -> None:
    for one in ids:
        if type(one) is not int:
            raise BadRequest(f"{param} must hold token ids (whole numbers) only, found {kind_of(one)}.", param=param)
        if not 0 <= one < vocab_size:
            raise BadRequest(f"{param}: {one} is not a token id of this model (0 to {vocab_size - 1}).", param=param)


def _dimensions(value: Any, name: str, full: int) -> int:
    """Return how many dimensions to keep; 0 for all."""
    if value is None:
        return 0
    if type(value) is not int or not 1 <= value <= full:
        raise BadRequest(f"dimensions must be a whole number from 1 to {full} for {name}.", param="dimensions")
    return 0 if value == full else value


def _as_base64(vector: bytes) -> orjson.Fragment:
    # Put into the JSON as it is: base64 has nothing to escape, and orjson would look for it.
    return orjson.Fragment(b'"%b"' % b2a_base64(vector, newline=False))


def as_floats(vector: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def _encoding(value: Any) -> Callable[[bytes], Any]:
    if value is None or value == "float":
        return as_floats
    if value == "base64":
        return _as_base64
    raise BadRequest("encoding_format must be float or base64.", param="encoding_format")


def _embeddings(name: str, answer: Answer, tokens: int, encode: Callable[[bytes], Any]) -> web.Response:
    data = [
        {"object": "embedding", "index": index, "embedding": encode(output)}
        for index, output in enumerate(answer.outputs)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    headers = None
    if answer.truncated:
        headers = {"X-Truncated-Inputs": ",".join(map(str, answer.truncated[:MAX_TRUNCATED_LISTED]))}
    return json_response({"object": "list", "data": data, "model": name, "usage": usage}, headers=headers)
