"""Tensors out of safetensors files, as float32. Reads numbers only: nothing in such a file can be executed."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from appliance.errors import CorruptModel, ModelError, UnsupportedModel

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

Array = NDArray[np.float32]

_DTYPES: dict[str, Any] = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16}


@dataclass(frozen=True)
class _Place:
    """Where a tensor lies: `start` and `length` in bytes of `file`."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    length: int


class Weights:
    """The tensors of a model by name; each is read from the disk when asked for."""

    def __init__(self, places: dict[str, _Place]) -> None:
        self._places = places

    @classmethod
    def open(cls, folder: Path) -> Weights:
        """Read the headers of model.safetensors, or of every shard that its index names.

        Raises CorruptModel where a file is not whole, ModelError where there is none.
        """
        places: dict[str, _Place] = {}
        for path in _files(folder):
            places.update(_header(path))
        return cls(places)

    @property
    def names(self) -> set[str]:
        return set(self._places)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._places[name].shape

    def renamed(self, rename: Callable[[str], str]) -> Weights:
        """Return the same tensors under the names that `rename` gives them."""
        return Weights({rename(name): place for name, place in self._places.items()})

    def read(self, name: str) -> Array:
        """Return one tensor in float32, converted from float64, float16 or bfloat16 where it is stored so."""
        place = self._places[name]
        if place.dtype not in _DTYPES:
            raise UnsupportedModel(f"{place.file.name}: tensor {name} is {place.dtype}; a floating type is expected")
        with place.file.open("rb") as file:
            file.seek(place.start)
            raw = np.frombuffer(file.read(place.length), dtype=np.dtype(_DTYPES[place.dtype]).newbyteorder("<"))
        if place.dtype == "BF16":  # the upper half of a float32; numpy has no such type
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        return raw.astype(np.float32).reshape(place.shape)


def _files(folder: Path) -> list[Path]:
    if (folder / SINGLE).exists():
        return [folder / SINGLE]
    if (folder / INDEX).exists():
        return _shards(folder)
    others = sorted(folder.glob("*.safetensors"))
    if len(others) == 1:
        return others
    raise ModelError(f"{folder.name}: neither {SINGLE} nor {INDEX} is there, so there are no weights to import")


def _shards(folder: Path) -> list[Path]:
    try:
        names = set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise CorruptModel(f"{INDEX}: not an index of shards: {error}") from error
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
            raise CorruptModel(f"{INDEX}: {name!r} is not the name of a shard beside it")
        if not (folder / name).exists():
            raise CorruptModel(f"{INDEX} names the shard {name}, which is missing; fetch the model again")
    return sorted(folder / name for name in names)


def _header(path: Path) -> dict[str, _Place]:
    """Return where each tensor of the file lies, after the library has checked header, offsets and size.

    Format: 8 bytes little-endian header length, a JSON header, then the tensors' bytes (safetensors README).
    """
    _check_is_safetensors(path)
    try:
        with safe_open(path, framework="np"):
            pass
    except SafetensorError as error:
        size = path.stat().st_size
        raise CorruptModel(f"{path.name} ({size} bytes) is broken or cut short: {error}; fetch it again") from error
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {name: _place(path, 8 + length, entry) for name, entry in header.items()}


def _place(path: Path, base: int, entry: dict[str, Any]) -> _Place:
    start, end = entry["data_offsets"]
    return _Place(path, entry["dtype"], tuple(entry["shape"]), base + start, end - start)


def _check_is_safetensors(path: Path) -> None:
    """Name the usual mistakes: a download that is an error page, a pointer of Git LFS, or nothing."""
    with path.open("rb") as file:
        start = file.read(64)
    if not start:
        raise CorruptModel(f"{path.name} is empty; fetch it again")
    if start.startswith(b"version https://git-lfs"):
        raise CorruptModel(f"{path.name} is a Git LFS pointer, not the weights; fetch the model with its large files")
    if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise CorruptModel(f"{path.name} is an HTML page, not safetensors; the download went wrong, fetch it again")
