from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from appliance.errors import CorruptModel, ModelError, UnsupportedModel
from appliance.models.importer.weights import INDEX, SINGLE, Weights

from .making import write_tensors

TENSORS = {"a": np.array([[1.5, -2.0], [0.25, 3.0]], np.float32), "b": np.array([0.5], np.float32)}


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_every_floating_type_reads_as_float32(tmp_path: Path, dtype: str) -> None:
    write_tensors(tmp_path / SINGLE, TENSORS, dtype)
    weights = Weights.open(tmp_path)
    assert weights.names == {"a", "b"}
    assert weights.shape("a") == (2, 2)
    for name, array in TENSORS.items():
        read = weights.read(name)
        assert read.dtype == np.float32
        assert np.array_equal(read, array)


def test_whole_numbers_are_refused_as_weights(tmp_path: Path) -> None:
    write_tensors(tmp_path / SINGLE, TENSORS, "I64")
    with pytest.raises(UnsupportedModel, match="tensor b is I64"):
        Weights.open(tmp_path).read("b")


def test_shards_are_read_through_their_index(tmp_path: Path) -> None:
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    for name, file in names.items():
        write_tensors(tmp_path / file, {name: TENSORS[name]})
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": names}))
    weights = Weights.open(tmp_path)
    assert np.array_equal(weights.read("a"), TENSORS["a"])
    assert np.array_equal(weights.read("b"), TENSORS["b"])
    (tmp_path / names["b"]).unlink()
    with pytest.raises(CorruptModel, match="model-00002-of-00002"):
        Weights.open(tmp_path)


@pytest.mark.parametrize(
    "index", ["", "[]", "{}", '{"weight_map": {"a": "../x.safetensors"}}', '{"weight_map": {"a": "x.bin"}}']
)
def test_a_broken_index_is_named(tmp_path: Path, index: str) -> None:
    (tmp_path / INDEX).write_text(index)
    with pytest.raises(CorruptModel, match="index"):
        Weights.open(tmp_path)


def header(entries: object, data: bytes = b"") -> bytes:
    head = json.dumps(entries).encode()
    return struct.pack("<Q", len(head)) + head + data


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"<!DOCTYPE html><html>Not found</html>", "HTML page"),
        (b"  <html>Not found</html>", "HTML page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (b"\x80\x02}q\x00.", "broken or cut short"),
        (b"\x08\x00", "broken or cut short"),
        (struct.pack("<Q", 2**62) + b"{}", "broken or cut short"),
        (header({"a": ENTRY}), "broken or cut short"),
        (header({"a": ENTRY}, b"\0" * 7), "broken or cut short"),
        (header({"a": ENTRY}, b"\0" * 9), "broken or cut short"),
        (header({"a": {**ENTRY, "shape": [3]}}, b"\0" * 8), "broken or cut short"),
        (header({"a": {**ENTRY, "shape": [2**40, 2**40]}}, b"\0" * 8), "broken or cut short"),
        (header({"a": {**ENTRY, "data_offsets": [0, 2**50]}}, b"\0" * 8), "broken or cut short"),
        (header({"a": {**ENTRY, "data_offsets": [8, 0]}}, b"\0" * 8), "broken or cut short"),
        (header({"a": {**ENTRY, "dtype": "OBJECT"}}, b"\0" * 8), "broken or cut short"),
        (header({"a": ENTRY, "b": ENTRY}, b"\0" * 8), "broken or cut short"),
    ],
)
def test_a_file_that_lies_is_refused_by_name(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / SINGLE).write_bytes(content)
    with pytest.raises(CorruptModel, match=told) as caught:
        Weights.open(tmp_path)
    assert SINGLE in caught.value.message


def test_a_cut_file_is_refused(published: Path) -> None:
    path = published / SINGLE
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(CorruptModel, match="cut short"):
        Weights.open(published)


def test_a_folder_without_weights_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no weights"):
        Weights.open(tmp_path)
