"""Text to token ids, the same in gateway, worker and importer. Uses the tokenizers library alone, never numpy."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import tokenizers

from appliance.errors import CorruptModel
from appliance.models.model import Model

TOKENIZER_FILE = "tokenizer.json"

_PROBE = "a"
_FAKE_RESERVED = 10


class Tokenizer:
    """Encodes texts of one model. `prefix` and `suffix` are the special ids around every single text."""

    def __init__(
        self,
        encode: Callable[[list[str]], list[list[int]]],
        vocab_size: int,
        prefix: list[int],
        suffix: list[int],
    ) -> None:
        self._encode = encode
        self.vocab_size = vocab_size
        self.prefix = prefix
        self.suffix = suffix

    @classmethod
    def load(cls, model: Model) -> Tokenizer:
        """Read the model's tokenizer.json; a fake model may have none. Raises CorruptModel."""
        path = model.folder / TOKENIZER_FILE
        if model.runtime == "fake" and not path.exists():
            return WordTokenizer(model.limits.vocab_size)
        return cls.from_file(path)

    @classmethod
    def from_file(cls, path: Path) -> Tokenizer:
        """Read a tokenizer.json as published. Raises CorruptModel."""
        try:
            inner = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise CorruptModel(f"{path}: not a tokenizer that can be read: {error}") from error
        # Files from a model hub often truncate and pad by themselves; silent truncation is never wanted.
        inner.no_truncation()
        inner.no_padding()
        # "[SEP]" typed by a user is text, not the token that ends a sequence.
        inner.encode_special_tokens = True
        prefix, suffix = _specials(inner)
        return cls(_encoder(inner), inner.get_vocab_size(), prefix, suffix)

    @property
    def special_count(self) -> int:
        """How many special tokens every text gets."""
        return len(self.prefix) + len(self.suffix)

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Return the ids of each text, special tokens included, neither truncated nor padded.

        Frees the interpreter lock while it works. Raises TypeError for a string that is not valid Unicode.
        """
        return self._encode(texts)

    def wrap(self, ids: list[int]) -> list[int]:
        """Return `ids` between prefix and suffix, or as they are where they already have both."""
        if len(ids) >= self.special_count and self._is_wrapped(ids):
            return ids
        return [*self.prefix, *ids, *self.suffix]

    def truncate(self, ids: list[int], max_tokens: int) -> list[int]:
        """Return wrapped `ids` with the end of their content cut, so that prefix and suffix stay.

        Raises ValueError where `max_tokens` leaves no room for those.
        """
        if max_tokens < self.special_count:
            raise ValueError(f"max_tokens {max_tokens} is below the {self.special_count} special tokens")
        if len(ids) <= max_tokens:
            return ids
        return ids[: max_tokens - len(self.suffix)] + self.suffix

    def _is_wrapped(self, ids: list[int]) -> bool:
        ends_well = not self.suffix or ids[-len(self.suffix) :] == self.suffix
        return ids[: len(self.prefix)] == self.prefix and ends_well


class WordTokenizer(Tokenizer):
    """The fake runtime's: one token a word, its id from the word's CRC-32; 1 before and 2 after them."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__(self._words, vocab_size, [1], [2])

    def _words(self, texts: list[str]) -> list[list[int]]:
        return [[1, *(self._id(word) for word in text.split()), 2] for text in texts]

    def _id(self, word: str) -> int:
        return zlib.crc32(word.encode()) % max(1, self.vocab_size - _FAKE_RESERVED) + _FAKE_RESERVED


def _encoder(inner: tokenizers.Tokenizer) -> Callable[[list[str]], list[list[int]]]:
    def encode(texts: list[str]) -> list[list[int]]:
        # A batch starts the library's thread pool even for one text; a single encode does not (20 us either way).
        if len(texts) == 1:
            return [inner.encode(texts[0]).ids]
        return [encoding.ids for encoding in inner.encode_batch_fast(texts)]

    return encode


def _specials(inner: tokenizers.Tokenizer) -> tuple[list[int], list[int]]:
    """Return the special ids before and after a text, read off the encoding of a probe."""
    encoding = inner.encode(_PROBE)
    mask = encoding.special_tokens_mask
    if 0 not in mask:
        raise CorruptModel(f"tokenizer.json: {_PROBE!r} has no token in its vocabulary")
    first = mask.index(0)
    last = len(mask) - mask[::-1].index(0)
    return encoding.ids[:first], encoding.ids[last:]
