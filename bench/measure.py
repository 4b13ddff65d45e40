"""Runs one measuring subprocess, and takes notes of its window: who used the cores meanwhile, and who else did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psutil

from bench import processes

Roles = Mapping[str, list[psutil.Process]]


class MeasureError(Exception):
    """A measurement that did not come about; the message says why."""


@dataclass(frozen=True)
class Window:
    """What the subprocess said (`result`) and the processor time by role (`cpu_s`).

    `foreign` is the share of the cores that others had: other programs or, on a virtual machine, its neighbours.
    """

    result: dict[str, Any]
    cpu_s: dict[str, float]
    foreign: float

    @property
    def cpu_ms_per_request(self) -> dict[str, float]:
        return {role: used * 1e3 / max(1, self.result["requests"]) for role, used in self.cpu_s.items()}


def run_module(module: str, arguments: list[str], task: dict[str, Any] | None = None) -> subprocess.Popen[str]:
    """Start `python -m module` with `task` as JSON on its standard input."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    with process.stdin as stdin:
        if task is not None:
            json.dump(task, stdin)
    return process


def ask(module: str, task: dict[str, Any]) -> dict[str, Any]:
    """Run `module` on a task that has no window; return what it says."""
    process = run_module(module, [], task)
    assert process.stdout is not None
    return _result(process, process.stdout.read())


def watch(
    process: subprocess.Popen[str],
    role: str,
    others: Roles,
    at_ends: Callable[[], None] = lambda: None,
) -> Window:
    """Follow a measuring subprocess to its end. `others` are the processes that work for it, by role.

    `at_ends` is called at both ends of the window.
    """
    assert process.stdout is not None
    roles = {role: [psutil.Process(process.pid)], **others}
    _expect(process, "begin")
    at_ends()
    before, ours_before = processes.cpu_s(roles), _own_s()
    busy_before, all_before = processes.machine_busy_s()
    _expect(process, "end")
    after, ours_after = processes.cpu_s(roles), _own_s()
    busy_after, all_after = processes.machine_busy_s()
    at_ends()
    result = _result(process, process.stdout.read())
    used = {name: max(0.0, after[name] - before[name]) for name in after}
    foreign_s = busy_after - busy_before - sum(used.values()) - (ours_after - ours_before)
    return Window(result, used, max(0.0, foreign_s / (all_after - all_before)))


def _own_s() -> float:
    times = os.times()
    return times.user + times.system


def _expect(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if line != word:
        process.kill()
        process.wait()
        raise MeasureError(f"{_name(process)} said {line!r} where {word!r} was expected.")


def _result(process: subprocess.Popen[str], text: str) -> dict[str, Any]:
    status = process.wait()
    if process.stdout is not None:
        process.stdout.close()
    if status:
        raise MeasureError(f"{_name(process)} ended with status {status}.")
    result: dict[str, Any] = json.loads(text)
    return result


def _name(process: subprocess.Popen[str]) -> str:
    return str(process.args[2]) if isinstance(process.args, list) else str(process.args)
