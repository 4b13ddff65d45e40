"""Routers that push requests at workers, to compare with. They live here and never in the product."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import count

Route = Callable[[Sequence[int], random.Random], int]
"""Given how many requests are outstanding at each worker, as far as is known, returns the one that is next."""


def round_robin() -> Route:
    turn = count()
    return lambda outstanding, dice: next(turn) % len(outstanding)


def at_random() -> Route:
    return lambda outstanding, dice: dice.randrange(len(outstanding))


def two_choices() -> Route:
    """The less loaded of two picked at random (Mitzenmacher 2001, "The power of two choices")."""

    def route(outstanding: Sequence[int], dice: random.Random) -> int:
        one, other = dice.sample(range(len(outstanding)), 2)
        return one if outstanding[one] <= outstanding[other] else other

    return route


def least_outstanding() -> Route:
    """The least loaded; of several, any."""

    def route(outstanding: Sequence[int], dice: random.Random) -> int:
        least = min(outstanding)
        return dice.choice([at for at, known in enumerate(outstanding) if known == least])

    return route


ROUTERS: dict[str, Callable[[], Route]] = {
    "round robin": round_robin,
    "random": at_random,
    "two choices": two_choices,
    "least outstanding": least_outstanding,
}
