from __future__ import annotations

import pytest

from bench.texts import MIXED, SHORT, Kind, texts


@pytest.mark.parametrize("kind", [SHORT, MIXED])
def test_every_length_comes_and_none_outside(kind: Kind) -> None:
    lengths = {len(text.split()) for text in texts(kind, 0, 3000)}
    assert lengths == set(range(kind.shortest, kind.longest + 1))


def test_the_same_seed_gives_the_same_texts_and_another_one_others() -> None:
    assert texts(SHORT, 1, 50) == texts(SHORT, 1, 50)
    assert texts(SHORT, 1, 50) == texts(SHORT, 1, 60)[:50]
    assert not set(texts(MIXED, 1, 50)) & set(texts(MIXED, 2, 50))
