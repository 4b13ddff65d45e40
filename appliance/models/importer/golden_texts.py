"""The texts of golden.json: short and long, several scripts, digits, nothing at all."""

from __future__ import annotations

from appliance.models.tokenizer import Tokenizer

_TEXTS = (
    "",
    "a",
    "The tenant shall pay rent monthly in advance.",
    "A man is playing a guitar on the roof of an old house.",
    "Invoice 2024-0042: EUR 1,250.00 due 30 days net, VAT 19 %.",
    "0123456789 3.14159 1e-7 -42 0x1F",
    "Die Mieterin zahlt die Miete monatlich im Voraus auf das Konto der Vermieterin.",
    "Café naïve façade, Zürich, Ünïcödé",
    "你好，世界。契約書は来週までに送付します。",
    "Договор вступает в силу с даты подписания.",
    "emoji 👨\u200d👩\u200d👧 and [SEP] typed by a user",
)
_LONG = "The parties agree that this Agreement shall be governed by the laws of the State of Delaware."

# The longest golden text; a check at every load should take a fraction of a second.
_MOST_TOKENS = 256


def golden_texts(tokenizer: Tokenizer, max_tokens: int) -> dict[str, list[int]]:
    """Return texts and their ids; the longest comes near `max_tokens` or 256, whichever is less."""
    limit = min(max_tokens, _MOST_TOKENS)
    texts = [*_TEXTS, _longest(tokenizer, limit)]
    encoded = zip(texts, tokenizer.encode(texts), strict=True)
    return {text: ids for text, ids in encoded if 0 < len(ids) <= limit}


def _longest(tokenizer: Tokenizer, limit: int) -> str:
    """Return as many words of a sentence, said again and again, as fit in `limit` tokens."""
    words = (_LONG.split() * limit)[:limit]
    fits, over = 0, len(words) + 1
    while over - fits > 1:
        middle = (fits + over) // 2
        if len(tokenizer.encode([" ".join(words[:middle])])[0]) <= limit:
            fits = middle
        else:
            over = middle
    return " ".join(words[:fits])
