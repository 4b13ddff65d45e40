"""The appliance's configuration in a scene."""

from __future__ import annotations

from collections.abc import Mapping

_OF_ALL: Mapping[str, object] = {"worker.devices": ["cpu"], "log.requests": False}
"""One worker for everything, so that its death is everybody's; and logs that stay small."""


def toml(settings: Mapping[str, object]) -> str:
    """Return a configuration file: settings by "section.key", over those of every fault."""
    sections: dict[str, list[str]] = {}
    for name, value in {**_OF_ALL, **settings}.items():
        section, _, key = name.partition(".")
        sections.setdefault(section, []).append(f"{key} = {_value(value)}")
    return "".join(f"[{section}]\n" + "\n".join(lines) + "\n" for section, lines in sections.items())


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)
