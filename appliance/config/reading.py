"""From TOML to settings and back: every key is known and of its type, or the error names file and key."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any, get_type_hints

from appliance.config.settings import Config, Data
from appliance.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def load(path: Path | None) -> Config:
    """Read `path` (TOML); None gives the defaults. Raises ConfigError naming the file and the key."""
    if path is None:
        return Config()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror}.") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} is not valid TOML: {exc}.") from exc
    return from_table(table, str(path))


def from_table(table: dict[str, Any], origin: str) -> Config:
    """Check a parsed table against the declarations; `origin` names it in errors."""
    sections = {f.name: f.default_factory for f in dataclasses.fields(Config)}
    parts: dict[str, Any] = {}
    for name, body in table.items():
        if name not in sections:
            raise ConfigError(f"{origin}: [{name}] is not a section. Sections are: {', '.join(sections)}.", param=name)
        if not isinstance(body, dict):
            raise ConfigError(f"{origin}: {name} must be a section, written [{name}], not {_kind(body)}.", param=name)
        parts[name] = _section(type(sections[name]()), name, body, origin)  # type: ignore[operator]
    return Config(**parts)


def _section(cls: type, name: str, body: dict[str, Any], origin: str) -> Any:
    """Build one section's dataclass from its table."""
    known = {f.name: f for f in dataclasses.fields(cls)}
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in body.items():
        where = f"{origin}: {name}.{key}"
        if key not in known:
            raise ConfigError(f"{where} is not a setting. [{name}] has: {', '.join(known)}.", param=f"{name}.{key}")
        try:
            values[key] = _checked(value, hints[key], known[key].metadata)
        except ValueError as exc:
            raise ConfigError(f"{where}: {exc}.", param=f"{name}.{key}") from None
    return cls(**values)


def _checked(value: Any, kind: Any, meta: Any) -> Any:
    """Return `value` as `kind` or raise ValueError saying what was expected."""
    if kind == tuple[str, ...]:
        is_list = isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
        if not is_list or len(value) < (meta["low"] or 0):
            raise ValueError(f"expected a list of strings, found {_kind(value)}")
        return tuple(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind:
        raise ValueError(f"expected {_NAMES[kind]}, found {_kind(value)}")
    if meta["one_of"] and value not in meta["one_of"]:
        raise ValueError(f"expected one of {', '.join(meta['one_of'])}, found {value!r}")
    low, high = meta["low"], meta["high"]
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        raise ValueError(f"expected a number from {low} to {high}, found {value}")
    return value


_NAMES = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


def _kind(value: Any) -> str:
    return f"{_NAMES.get(type(value), type(value).__name__)} ({value!r})"[:120]


def to_table(config: Config) -> dict[str, Any]:
    """The inverse of from_table, for handing the configuration to a child process."""
    return dataclasses.asdict(config)


def replaced(config: Config, *, host: str | None = None, port: int | None = None, data: str | None = None) -> Config:
    """Lay command-line options over the file's values; None leaves a value alone."""
    server = config.server
    if host is not None:
        server = dataclasses.replace(server, host=host)
    if port is not None:
        server = dataclasses.replace(server, port=port)
    return dataclasses.replace(config, server=server, data=Data(dir=data) if data is not None else config.data)
