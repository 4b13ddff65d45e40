"""The rules that DESIGN.md draws, read off the source with ast."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "appliance"

ROWS = (
    ("__main__", "cli"),
    ("daemon",),
    ("gateway", "worker", "engine"),
    ("workqueue", "models", "operations"),
    ("supervisor", "wire", "runtimes"),
    ("config", "errors", "log", "metrics"),
)
ROW_OF = {part: number for number, row in enumerate(ROWS) for part in row}

SAME_ROW = {
    ("__main__", "cli"): "the command hands on to its groups",
    ("config", "errors"): "a wrong setting is an error of the tree",
    ("supervisor", "wire"): "the control socket's launch order and the broker's permissions are named in wire/",
}
"""Imports along a row that are meant, each with its reason; anything else along a row is an error."""

OWNERS = {
    "nats": ("workqueue/",),
    "onnxruntime": ("runtimes/",),
    "llama_cpp": ("runtimes/",),
}
"""Libraries that one part alone may import."""

WITHOUT_NUMPY = ("gateway", "worker", "workqueue", "daemon", "supervisor", "cli", "wire")
READS_ENVIRONMENT = ("cli/run.py",)
KNOWS_STATUS_CODES = ("gateway/render.py",)
MAX_LINES = 350

FILES = sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Return the names of all that a file imports, anywhere in it."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module_of(path).split(".")
                package = package if path.name == "__init__.py" else package[:-1]
                kept = package[: len(package) - node.level + 1]
                base = ".".join([*kept, base] if base else kept)
            names = [f"{base}.{alias.name}" for alias in node.names]
            # "from a import b" imports the module a.b where there is one, else a
            yield from (name if name in MODULES else base for name in names)


def inside(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def part_of(module: str) -> str:
    """Return the row entry that a module of ours belongs to; the bare package has none."""
    return [*module.split("."), ""][1]


def pairs() -> list[tuple[str, str]]:
    """Return every (importing, imported) pair of our modules."""
    return [
        (module, name) for module, path in MODULES.items() for name in imports_of(path) if name.startswith("appliance.")
    ]


def test_every_part_has_its_row() -> None:
    parts = {part_of(module) for module in MODULES} - {""}
    assert parts == set(ROW_OF)


def test_imports_point_down_or_stay_in_their_part() -> None:
    wrong = []
    for module, name in pairs():
        one, other = part_of(module), part_of(name)
        is_allowed = one == other or ROW_OF[one] < ROW_OF[other] or (one, other) in SAME_ROW
        if not is_allowed:
            wrong.append(f"{module} imports {name}")
    assert wrong == []


def test_every_exception_is_still_needed() -> None:
    used = {(part_of(module), part_of(name)) for module, name in pairs()}
    assert set(SAME_ROW) - used == set()


def test_no_module_takes_part_in_an_import_cycle() -> None:
    graph = {module: {name for name in imports_of(path) if name in MODULES} for module, path in MODULES.items()}
    done: set[str] = set()
    while True:
        ready = {module for module, needs in graph.items() if module not in done and needs - {module} <= done}
        if not ready:
            break
        done |= ready
    assert sorted(set(graph) - done) == []


@pytest.mark.parametrize(("library", "owners"), OWNERS.items())
def test_a_library_is_imported_by_its_owner_only(library: str, owners: tuple[str, ...]) -> None:
    users = {inside(path) for path in FILES if library in {name.split(".")[0] for name in imports_of(path)}}
    assert [user for user in sorted(users) if not user.startswith(owners)] == []


@pytest.mark.parametrize("part", WITHOUT_NUMPY)
def test_parts_that_must_start_quickly_never_import_numpy(part: str) -> None:
    users = [
        module
        for module, path in MODULES.items()
        if part_of(module) == part and "numpy" in {name.split(".")[0] for name in imports_of(path)}
    ]
    assert users == []


@pytest.mark.parametrize("module", ["appliance.gateway.main", "appliance.worker.main", "appliance.daemon"])
def test_long_lived_processes_load_no_model_library(module: str) -> None:
    heavy = ("numpy", "onnx", "onnxruntime", "llama_cpp")
    code = f"import sys, {module}; print(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == []


def test_only_render_knows_status_codes() -> None:
    found = [
        f"{inside(path)}:{node.lineno} {node.value}"
        for path in FILES
        if inside(path).startswith("gateway/") and inside(path) not in KNOWS_STATUS_CODES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and type(node.value) is int and 400 <= node.value <= 599
    ]
    assert found == []


def test_only_the_command_line_reads_the_environment() -> None:
    readers = {
        inside(path)
        for path in FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        and node.attr in ("environ", "environb", "getenv", "putenv")
    }
    assert readers <= set(READS_ENVIRONMENT)


def test_no_file_is_long() -> None:
    lengths = {inside(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def test_every_module_says_what_it_is_for() -> None:
    silent = [inside(path) for path in FILES if path.stat().st_size and not ast.get_docstring(tree_of(path))]
    assert silent == []


def test_only_wait_sleeps_in_the_tests() -> None:
    sleepers = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sleep"
    }
    assert sleepers <= {"tests/wait.py"}
