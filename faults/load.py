"""The load, a process of its own: reads its order from standard input, writes the history, stops at the order's end.

{"port": ..., "mix": ..., "seed": ..., "history": ..., "golden": ...} and a newline; then end of file means: stop.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from faults import expected
from faults.client import Answer, Broken, Connection
from faults.history import END, EXTRA, SEND, History
from faults.mix import Asked, Guilty, Lane, Mix, requests
from faults.oracle import SHED

_GIVE_UP_S = 60.0
_GRACE_S = 3.0
"""How long past its deadline a request is waited for, to tell a late answer from none."""
_AGAIN_S = (0.02, 0.2)
_LONGEST_GOLDEN = 160


def order(port: int, mix: Mix, seed: str, history: Path, golden: Path | None) -> bytes:
    """Return the line that starts a load."""
    fields = {
        "port": port,
        "mix": asdict(mix),
        "seed": seed,
        "history": str(history),
        "golden": str(golden) if golden else "",
    }
    return json.dumps(fields).encode() + b"\n"


def mix_of(fields: dict[str, Any]) -> Mix:
    """Return a Mix as `order` packed it."""
    guilty = fields.pop("guilty")
    lanes = tuple(Lane(**lane) for lane in fields.pop("lanes"))
    if guilty is not None:
        guilty = Guilty(**{**guilty, "models": tuple(guilty["models"])})
    return Mix(**{**fields, "lanes": lanes, "guilty": guilty, "deadline_s": tuple(fields["deadline_s"])})


class Load:
    """All clients of one load. What one has asked it follows to the end, before and after the stop."""

    def __init__(self, port: int, mix: Mix, seed: str, history: History, golden: dict[str, list[float]]) -> None:
        self._port = port
        self._mix = mix
        self._seed = seed
        self._history = history
        self._golden = golden
        self._numbers = itertools.count(1)
        self._guilty_left = mix.guilty.most if mix.guilty else 0
        self._is_over = False

    def stop(self) -> None:
        self._is_over = True

    async def run(self) -> None:
        loops = self._mix.guilty.loops if self._mix.guilty else 0
        await asyncio.gather(*(self._client(n, n < loops) for n in range(loops + self._mix.clients)))

    async def _client(self, number: int, is_guilty: bool) -> None:
        caller = Caller(
            self._port, self._mix, self._history, self._golden, random.Random(f"{self._seed} {number} again")
        )
        texts = [text for text in self._golden if len(text) <= _LONGEST_GOLDEN]
        for asked in requests(self._mix, f"{self._seed} {number}", texts, is_guilty):
            if self._mix.guilty is not None and asked.role == self._mix.guilty.role:
                if not self._guilty_left:
                    continue
                self._guilty_left -= 1
            await caller.ask(next(self._numbers), asked)
            await asyncio.sleep(asked.pause_s)
            if self._is_over:
                break
        caller.close()


class Caller:
    """One client: one connection, one request at a time, the same body again where the outcome is unknown."""

    def __init__(
        self, port: int, mix: Mix, history: History, golden: dict[str, list[float]], chance: random.Random
    ) -> None:
        self._port = port
        self._mix = mix
        self._history = history
        self._golden = golden
        self._chance = chance
        self._connection: Connection | None = None
        self._op = 0

    async def ask(self, op: int, asked: Asked) -> None:
        """Ask until there is an answer, writing a line before and after each attempt."""
        self._op = op
        body = orjson.dumps({"model": asked.lane.name, "input": asked.texts})
        give_up_at = asyncio.get_running_loop().time() + _GIVE_UP_S
        for attempt in itertools.count():
            self._history.write(
                SEND, op=op, n=attempt, model=asked.lane.name, role=asked.role, deadline_s=round(asked.deadline_s, 3)
            )
            end = await self._attempt(op, attempt, asked, body)
            again_s = self._again_s(end) if asyncio.get_running_loop().time() < give_up_at else None
            self._history.write(END, op=op, n=attempt, **end, is_last=again_s is None)
            if again_s is None:
                return
            await asyncio.sleep(again_s)

    def _again_s(self, end: dict[str, Any]) -> float | None:
        """Return in how many seconds to try again, None where that was the end."""
        is_down = end.get("code") == "unavailable" and self._mix.retries_unavailable
        if end["why"] in ("refused", "reset") or is_down:
            return self._chance.uniform(*_AGAIN_S)
        if self._mix.comes_back and end.get("code") in SHED and "after_s" in end:
            return float(end["after_s"]) + self._chance.uniform(0.0, 0.5)
        return None

    async def _attempt(self, op: int, attempt: int, asked: Asked, body: bytes) -> dict[str, Any]:
        request_id = f"op{op}.{attempt}"
        try:
            connection = await self._connected()
            answer = await connection.ask(
                request(op, attempt, asked, body), asked.hang_up_s or asked.deadline_s + _GRACE_S
            )
        except Broken as broken:
            self.close()
            return {"why": "gone" if asked.hang_up_s and str(broken) == "silent" else str(broken)}
        if not self._mix.keeps or answer.headers.get("connection", "").lower() == "close":
            self.close()
        return outcome(answer, request_id, asked, self._golden)

    async def _connected(self) -> Connection:
        if self._connection is None or not self._connection.is_open:
            self._connection = Connection(self._on_extra)
            await self._connection.open(self._port)
        return self._connection

    def _on_extra(self, data: bytes) -> None:
        self._history.write(EXTRA, op=self._op, bytes=data[:200].decode(errors="replace"))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def request(op: int, attempt: int, asked: Asked, body: bytes) -> bytes:
    """Return the bytes of an attempt. Every other request says by a key of its own that its attempts are one."""
    headers = {
        "Host": "127.0.0.1",
        "Authorization": f"Bearer {asked.role}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "X-Request-Id": f"op{op}.{attempt}",
        "X-Request-Timeout": f"{asked.deadline_s:.3f}",
        **({"Idempotency-Key": f"op{op}"} if op % 2 else {}),
        **({"X-Work-Class": asked.klass} if asked.klass else {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /v1/embeddings HTTP/1.1\r\n{lines}\r\n".encode() + body


def outcome(answer: Answer, request_id: str, asked: Asked, golden: dict[str, list[float]]) -> dict[str, Any]:
    """Return what an answer is worth: good, wrong, error with its code, or garbage."""
    foreign = {"is_foreign": True} if answer.headers.get("x-request-id", request_id) != request_id else {}
    try:
        fields = orjson.loads(answer.body)
        if answer.status == 200:
            return {"why": "good" if is_right(fields, asked, golden) else "wrong", "status": 200, **foreign}
        error = fields["error"]
        code = error["code"]
        is_named = bool(code) and bool(error["message"]) and set(error) == {"message", "type", "param", "code"}
    except (ValueError, KeyError, TypeError):
        return {"why": "garbage", "status": answer.status, **foreign}
    after_s = answer.headers.get("retry-after", "")
    after = {"after_s": int(after_s)} if after_s.isdigit() else {}
    if code in SHED and not after:
        is_named = False
    return {"why": "error" if is_named else "garbage", "status": answer.status, "code": code, **after, **foreign}


def is_right(fields: Any, asked: Asked, golden: dict[str, list[float]]) -> bool:
    """Return whether an answer has the vectors of its own texts, in their order."""
    data = fields["data"]
    if fields["model"] != asked.lane.name or [entry["index"] for entry in data] != list(range(len(asked.texts))):
        return False
    pairs = zip((entry["embedding"] for entry in data), asked.texts, strict=True)
    if asked.lane.dimensions:
        return all(expected.is_fake(vector, text, asked.lane.dimensions) for vector, text in pairs)
    return all(expected.is_like(vector, golden[text]) for vector, text in pairs)


async def _serve(fields: dict[str, Any]) -> None:
    golden = expected.golden(Path(fields["golden"])) if fields["golden"] else {}
    history = History(Path(fields["history"]))
    load = Load(fields["port"], mix_of(fields["mix"]), fields["seed"], history, golden)
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), load.stop)
    await load.run()
    loop.remove_reader(sys.stdin.fileno())


def main() -> None:
    # Read byte by byte: what a buffer took too much of would never wake the loop.
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(sys.stdin.fileno(), 1) or b"\n"
    asyncio.run(_serve(json.loads(line)))


if __name__ == "__main__":
    main()
