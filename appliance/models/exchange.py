"""Swaps two folders in one step, so that a model being replaced is never absent."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def swap(one: Path, other: Path) -> None:
    """Exchange the folders `one` and `other`, which must lie in one file system.

    Uses renameat2(2) with RENAME_EXCHANGE; where the C library or the file system lacks it, three renames,
    between which `other` is absent for some microseconds.
    """
    if not _exchange(one, other):
        aside = one.with_name(one.name + "-old")
        other.rename(aside)
        one.rename(other)
        aside.rename(one)


def _exchange(one: Path, other: Path) -> bool:
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    done = renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return bool(done == 0)
