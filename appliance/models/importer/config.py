"""config.json as published on a model hub, read with names and types checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from appliance.errors import CorruptModel, ModelError

CONFIG = "config.json"


def read_json(path: Path) -> Any:
    """Return the content of a JSON file. Raises CorruptModel."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{path.name}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CorruptModel(f"{path.name}: not JSON: {error}") from error


class ModelConfig:
    """A model's config.json."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    @classmethod
    def read(cls, folder: Path) -> ModelConfig:
        values = read_json(folder / CONFIG)
        if not isinstance(values, dict):
            raise CorruptModel(f"{CONFIG}: an object is expected")
        return cls(values)

    @property
    def model_type(self) -> str:
        return self.text("model_type", "")

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the PyTorch classes that the weights were saved from."""
        found = self._values.get("architectures") or []
        return tuple(str(name) for name in found) if isinstance(found, list) else (str(found),)

    def count(self, key: str) -> int:
        """Return a whole number of at least 1."""
        value = self._values.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise CorruptModel(f"{CONFIG}: {key} is {value!r}; a positive whole number is expected", param=key)
        return value

    def number(self, key: str, default: float) -> float:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise CorruptModel(f"{CONFIG}: {key} is {value!r}; a number is expected", param=key)
        return float(value)

    def text(self, key: str, default: str) -> str:
        value = self._values.get(key, default)
        if not isinstance(value, str):
            raise CorruptModel(f"{CONFIG}: {key} is {value!r}; a string is expected", param=key)
        return value

    def is_set(self, key: str) -> bool:
        return bool(self._values.get(key))
