"""The installed models by name. Read by every process; reads model.toml only, never a weight."""

from __future__ import annotations

import os
from pathlib import Path

from appliance.errors import CorruptModel
from appliance.models.manifest import read_manifest
from appliance.models.model import Model, folder_name, valid_name

__all__ = ["Catalog", "Model", "valid_name"]

_State = tuple[int, frozenset[tuple[str, int]]]


class Catalog:
    """What lies in the models folder `root`, as of the last `scan`.

    `models` is sorted by name. `broken` maps the folder of a model that cannot be used to the reason.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.models: tuple[Model, ...] = ()
        self.broken: dict[str, str] = {}
        self._by_name: dict[str, Model] = {}
        self._state: _State | None = None

    def scan(self) -> None:
        """Read every `<root>/*/model.toml` again. A broken one does not take the others down."""
        state = self._observe()
        models: list[Model] = []
        broken: dict[str, str] = {}
        for folder in self._folders():
            try:
                models.append(_read(folder))
            except CorruptModel as error:
                # No manifest: not a model, or one that was removed a moment ago.
                if not isinstance(error.__cause__, FileNotFoundError):
                    broken[folder.name] = error.message
        models.sort(key=lambda model: model.name.lower())
        by_name = {model.name.lower(): model for model in models}
        for model in models:
            for alias in model.aliases:
                owner = by_name.setdefault(alias.lower(), model)
                if owner is not model:
                    broken[model.folder.name] = f"alias {alias!r} already names the model {owner.name!r}; not used"
        self.models, self.broken, self._by_name, self._state = tuple(models), broken, by_name, state

    def resolve(self, name: str) -> Model | None:
        """Return the model of that name or alias, whatever the case of its letters; nothing else is tolerated."""
        return self._by_name.get(name.lower())

    def is_stale(self) -> bool:
        """Return whether a model was installed, replaced or removed since the last scan. Reads one folder."""
        return self._state is None or self._observe() != self._state

    def _observe(self) -> _State:
        # The inode tells a replaced folder from the one before it even within one tick of the file system's clock.
        try:
            with os.scandir(self.root) as entries:
                inside = frozenset((entry.name, entry.inode()) for entry in entries if entry.name[0] != ".")
            return self.root.stat().st_mtime_ns, inside
        except FileNotFoundError:
            return 0, frozenset()

    def _folders(self) -> list[Path]:
        try:
            entries = sorted(self.root.iterdir())
        except FileNotFoundError:
            return []
        # Dotted folders are work in progress; "lost+found" and the like have no name of a model either.
        return [entry for entry in entries if valid_name(entry.name) and entry.is_dir()]


def _read(folder: Path) -> Model:
    model = read_manifest(folder)
    if folder.name != folder_name(model.name):
        expected = folder_name(model.name)
        raise CorruptModel(f"{folder}: the folder of {model.name!r} must be named {expected!r}", param="name")
    return model
