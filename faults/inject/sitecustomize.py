"""Loaded by every Python of an appliance under faults, before anything of its own: breaks the virtual device on demand.

Files in the folder that APPLIANCE_FAULTS_DIR names say what: `sticky`: every pass fails from now on, in this process
for its whole life; `slow`: the seconds that loading a model whose folder begins with "late" takes.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

_TARGET = "appliance.runtimes.fake"


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the others find the module, and changes it once it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _TARGET:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _break(module, Path(os.environ["APPLIANCE_FAULTS_DIR"]))

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _break(module: Any, folder: Path) -> None:
    run, load = module.FakeSession.run, module.FakeRuntime.load
    sticky, slow = folder / "sticky", folder / "slow"
    state = {"is_broken": False}

    def run_or_fail(self: Any, ids: Any, mask: Any) -> Any:
        state["is_broken"] = state["is_broken"] or sticky.exists()
        if state["is_broken"]:
            raise RuntimeError("the device is gone, for this process for ever")
        return run(self, ids, mask)

    def load_slowly(self: Any, spec: Any) -> Any:
        if slow.exists() and spec.folder.name.startswith("late"):
            time.sleep(float(slow.read_text()))
        return load(self, spec)

    module.FakeSession.run, module.FakeRuntime.load = run_or_fail, load_slowly


if "APPLIANCE_FAULTS_DIR" in os.environ:
    sys.meta_path.insert(0, _Finder())
