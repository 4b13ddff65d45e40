"""The checker: a history in, the figures of one row out. Pure; it knows nothing of the product but HTTP's outcomes.

A request (op) has one attempt or more. It is admitted unless it was turned away at the door; admitted, it must end
with its own right answer or a named error. Anything else is lost. A connection that broke while whoever held it was
killed is unknown: the same body is sent again, and that attempt counts.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from faults.history import DOWN, END, EXTRA, SEND, UP, Line

SHED = frozenset({"overloaded", "too_many_connections"})
"""Codes of answers that turn a request away at the door."""

INNOCENT = "innocent"
_BREAKS = frozenset({"reset", "silent", "garbage"})
_SLACK_S = 0.5
"""A connection that its holder's death broke may be written to a moment before the client hears of it."""
_LATE_S = 1.0


@dataclass
class Attempt:
    """`why` is good, wrong, error, refused, reset, silent, garbage or gone (the client's own will); empty: no end."""

    sent_at: float
    ended_at: float = math.inf
    why: str = ""
    code: str = ""
    answers: int = 0


@dataclass
class Op:
    """One request as its caller sees it."""

    model: str
    role: str
    deadline_s: float
    attempts: dict[int, Attempt] = field(default_factory=dict)

    @property
    def sent_at(self) -> float:
        return next(iter(self.attempts.values())).sent_at

    @property
    def last(self) -> Attempt:
        return next(reversed(self.attempts.values()))


@dataclass
class Verdict:
    """The figures. `errors` counts the codes of named errors by the role of whoever got them.

    `came_back` are those that were turned away and came again when they were told to, `put_off` those of them that were
    turned away again then.
    """

    requests: int = 0
    shed: int = 0
    admitted: int = 0
    answered: int = 0
    errors: dict[str, Counter[str]] = field(default_factory=dict)
    lost: int = 0
    twice: int = 0
    wrong: int = 0
    retried: int = 0
    gone: int = 0
    came_back: int = 0
    put_off: int = 0
    gap_s: float = 0.0
    p99_s: float = math.nan
    innocents: int = 0
    innocents_answered: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def named_errors(self) -> int:
        return sum(sum(codes.values()) for codes in self.errors.values())


def judge(lines: Iterable[Line]) -> Verdict:
    """Return what a history says."""
    ops, downs, verdict = _gather(lines)
    for number, op in ops.items():
        _count(number, op, downs, verdict)
    innocents = [op for op in ops.values() if op.role == INNOCENT]
    verdict.gap_s = max(
        (worst_gap(op for op in innocents if op.model == model) for model in {op.model for op in innocents}),
        default=0.0,
    )
    verdict.p99_s = _quantile([op.last.ended_at - op.sent_at for op in innocents if op.last.why == "good"], 0.99)
    return verdict


# -- from lines to requests -------------------------------------------------------------------


def _gather(lines: Iterable[Line]) -> tuple[dict[int, Op], list[list[float]], Verdict]:
    ops: dict[int, Op] = {}
    downs: list[list[float]] = []
    verdict = Verdict()
    for line in lines:
        kind = line["e"]
        if kind == SEND:
            op = ops.setdefault(line["op"], Op(line["model"], line["role"], line["deadline_s"]))
            op.attempts[line["n"]] = Attempt(line["t"])
        elif kind == END:
            _end(ops[line["op"]].attempts[line["n"]], line, verdict)
        elif kind == EXTRA:
            verdict.twice += 1
            _tell(verdict, f"unasked bytes after op {line.get('op')}: {line.get('bytes')}")
        elif kind == DOWN:
            downs.append([line["t"], math.inf])
        elif kind == UP and downs:
            downs[-1][1] = line["t"]
    return ops, downs, verdict


def _end(attempt: Attempt, line: Line, verdict: Verdict) -> None:
    """Note an attempt's end; a second one, or an answer under another request's id, is an answer too many."""
    if attempt.why or line.get("is_foreign"):
        verdict.twice += 1
        _tell(verdict, f"op {line['op']} answered twice, or with another's answer")
    if not attempt.why:
        attempt.ended_at, attempt.why, attempt.code = line["t"], line["why"], line.get("code", "")


def _tell(verdict: Verdict, text: str) -> None:
    if len(verdict.examples) < 5:
        verdict.examples.append(text)


# -- from requests to figures -----------------------------------------------------------------


def _count(number: int, op: Op, downs: list[list[float]], verdict: Verdict) -> None:
    verdict.requests += 1
    verdict.retried += len(op.attempts) - 1
    verdict.wrong += sum(attempt.why == "wrong" for attempt in op.attempts.values())
    turned_away = sum(attempt.code in SHED for attempt in op.attempts.values())
    verdict.came_back += turned_away > 0 and len(op.attempts) > 1
    verdict.put_off += turned_away > 1
    last = op.last
    if last.why == "gone":
        verdict.gone += 1
        return
    if op.role == INNOCENT:
        verdict.innocents += 1
    if last.code in SHED or all(attempt.why == "refused" for attempt in op.attempts.values()):
        verdict.shed += 1
        return
    verdict.admitted += 1
    how = _how_lost(op, downs)
    if how:
        verdict.lost += 1
        _tell(verdict, f"op {number} ({op.model}, {op.role}) lost: {how}")
    elif last.why == "good":
        verdict.answered += 1
        verdict.innocents_answered += op.role == INNOCENT
    elif last.why == "error":
        verdict.errors.setdefault(op.role, Counter())[last.code] += 1
    else:
        _tell(verdict, f"op {number} ({op.model}, {op.role}) got another's vector")


def _how_lost(op: Op, downs: list[list[float]]) -> str:
    """Return how an admitted request was lost, empty where it was not."""
    for attempt in op.attempts.values():
        if not attempt.why:
            return "no end"
        if attempt.why in _BREAKS and not (attempt.why == "reset" and _is_explained(attempt, downs)):
            return attempt.why
    last = op.last
    if last.why not in ("good", "error", "wrong"):
        return f"given up after {len(op.attempts)} attempts, the last {last.why}"
    late_s = last.ended_at - last.sent_at - op.deadline_s
    return f"answered {late_s:.1f} s after its deadline" if late_s > _LATE_S else ""


def _is_explained(attempt: Attempt, downs: list[list[float]]) -> bool:
    """Return whether whoever held the connection was down while the attempt ran."""
    return any(start <= attempt.ended_at and attempt.sent_at <= end + _SLACK_S for start, end in downs)


def worst_gap(ops: Iterable[Op]) -> float:
    """Return the longest time for which somebody waited and nobody got a good answer."""
    ordered = sorted(ops, key=lambda op: op.last.ended_at)
    ends = [op.last.ended_at for op in ordered if op.last.why == "good"]
    if not ends:
        return math.inf if ordered else 0.0
    # The earliest start among all that end at this place of the order or later: who may be waiting.
    starts = [op.sent_at for op in ordered]
    for index in range(len(starts) - 2, -1, -1):
        starts[index] = min(starts[index], starts[index + 1])
    every_end = [op.last.ended_at for op in ordered]
    worst = ends[0] - starts[0]
    for one, following in pairwise(ends):
        waiting_since = starts[bisect_left(every_end, following)]
        worst = max(worst, following - max(one, waiting_since))
    return worst


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else math.nan
