"""model.toml: reads it strictly and writes it."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from appliance.errors import CorruptModel
from appliance.models.model import (
    FAIL_MODES,
    OPERATIONS,
    POOLINGS,
    RUNTIMES,
    EmbedSettings,
    FakeSettings,
    Limits,
    Model,
    computed_hash,
    valid_name,
)
from appliance.models.table import Table
from appliance.models.toml_text import toml_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["MANIFEST", "Model", "read_manifest", "write_manifest"]

MANIFEST = "model.toml"
SCHEMA = 1

_HASH = re.compile(r"sha256:[0-9a-f]{64}")


def read_manifest(folder: Path) -> Model:
    """Read `folder`/model.toml. Raises CorruptModel naming the file and the key."""
    path = folder / MANIFEST
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CorruptModel(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CorruptModel(f"{path}: not TOML: {error}") from error
    return _parse(Table(raw, path), folder)


def _parse(table: Table, folder: Path) -> Model:
    if table.integer("schema") != SCHEMA:
        raise table.error("schema", f"{SCHEMA} is expected; this model was written by a newer appliance")
    runtime = table.choice("runtime", RUNTIMES)
    model = Model(
        name=table.text("name"),
        folder=folder,
        operations=table.texts("operations"),
        runtime=runtime,
        limits=_limits(table),
        aliases=table.texts("aliases", ()),
        architecture=table.text("architecture", ""),
        source=table.text("source", ""),
        source_hash=table.text("source_hash", ""),
        licence=table.text("licence", ""),
        imported_at=table.instant("imported_at"),
        content_hash=table.text("content_hash", ""),
        embed=_embed(table),
        fake=_fake(table, runtime),
        files=_files(table),
    )
    table.close()
    _check(model, table)
    # A manifest written by hand may leave its hash out.
    return model if model.content_hash else replace(model, content_hash=computed_hash(model))


def _check(model: Model, table: Table) -> None:
    for name in model.names:
        if not valid_name(name):
            raise table.error("name" if name == model.name else "aliases", f"{name!r} is not a valid name")
    if not model.operations:
        raise table.error("operations", "at least one is expected")
    for operation in model.operations:
        if operation not in OPERATIONS:
            raise table.error("operations", f"is {operation!r}; one of {', '.join(OPERATIONS)} is expected")
    if "embed" in model.operations and model.embed is None:
        raise table.error("embed", "missing; the operation embed needs it")


def _limits(table: Table) -> Limits:
    inner = table.table("limits")
    if inner is None:
        raise table.error("limits", "missing")
    limits = Limits(max_tokens=inner.integer("max_tokens"), vocab_size=inner.integer("vocab_size"))
    if limits.max_tokens < 1:
        raise inner.error("max_tokens", "at least 1 is expected")
    if limits.vocab_size < 1:
        raise inner.error("vocab_size", "at least 1 is expected")
    inner.close()
    return limits


def _embed(table: Table) -> EmbedSettings | None:
    inner = table.table("embed")
    if inner is None:
        return None
    embed = EmbedSettings(
        dimensions=inner.integer("dimensions"),
        pooling=inner.choice("pooling", POOLINGS),
        normalize=inner.flag("normalize"),
    )
    if embed.dimensions < 1:
        raise inner.error("dimensions", "at least 1 is expected")
    inner.close()
    return embed


def _fake(table: Table, runtime: str) -> FakeSettings | None:
    inner = table.table("fake")
    if inner is None:
        return FakeSettings() if runtime == "fake" else None
    if runtime != "fake":
        raise table.error("fake", f"only a model with runtime fake has it; this one has {runtime}")
    fake = FakeSettings(
        a_ms=inner.number("a_ms", 0.0),
        b_ms_per_token=inner.number("b_ms_per_token", 0.0),
        c_ms_per_item=inner.number("c_ms_per_item", 0.0),
        load_ms=inner.number("load_ms", 0.0),
        memory_bytes=inner.integer("memory_bytes", 0),
        slow_device=inner.text("slow_device", ""),
        slow_factor=inner.number("slow_factor", 1.0),
        fail_marker=inner.text("fail_marker", ""),
        fail_mode=inner.choice("fail_mode", FAIL_MODES, "error"),
    )
    inner.close()
    return fake


def _files(table: Table) -> dict[str, str]:
    inner = table.table("files")
    files = inner.text_items() if inner else {}
    for name, digest in files.items():
        if not _safe_path(name):
            raise table.error(f"files.{name}", "a relative path inside the model's folder is expected")
        if not _HASH.fullmatch(digest):
            raise table.error(f"files.{name}", 'is not "sha256:" and 64 hexadecimal digits')
    return files


def _safe_path(name: str) -> bool:
    parts = name.split("/")
    return "\\" not in name and "\0" not in name and all(part not in ("", ".", "..") for part in parts)


def write_manifest(model: Model, folder: Path) -> None:
    """Write `model` as `folder`/model.toml."""
    (folder / MANIFEST).write_text(_dump(model), encoding="utf-8")


def _dump(model: Model) -> str:
    top: dict[str, Any] = {
        "schema": SCHEMA,
        "name": model.name,
        "aliases": list(model.aliases),
        "operations": list(model.operations),
        "runtime": model.runtime,
        "architecture": model.architecture,
        "source": model.source,
        "source_hash": model.source_hash,
        "licence": model.licence,
        "imported_at": model.imported_at,
        "content_hash": model.content_hash,
    }
    tables: dict[str, Mapping[str, Any] | None] = {
        "limits": asdict(model.limits),
        "embed": asdict(model.embed) if model.embed else None,
        "files": model.files or None,
        "fake": asdict(model.fake) if model.fake else None,
    }
    return toml_text(top, tables)
