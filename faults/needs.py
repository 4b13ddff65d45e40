"""What a fault needs of the machine, and why it is skipped where that is not there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path


def missing(needs: tuple[str, ...]) -> str:
    """Return why a fault with these needs cannot run here; empty where it can."""
    return next(filter(None, (_CHECKS[need]() for need in needs)), "")


def _root() -> str:
    return "" if os.geteuid() == 0 else "needs root"


@cache
def _mount() -> str:
    """Containers are often root without the right to mount."""
    if why := _root():
        return why
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], capture_output=True, check=False)
        if done.returncode:
            return "needs the right to mount file systems"
        subprocess.run(["umount", folder], check=True)
    return ""


@cache
def _loop() -> str:
    if why := _mount():
        return why
    if not shutil.which("mkfs.ext4"):
        return "needs mkfs.ext4"
    done = subprocess.run(["losetup", "-f"], capture_output=True, check=False)
    return "needs a free loop device" if done.returncode or not os.path.exists(done.stdout.strip()) else ""


@cache
def _memory_cgroup() -> str:
    if why := _root():
        return why
    folder = memory_cgroups() / f"appliance-faults-probe-{os.getpid()}"
    try:
        folder.mkdir()
        folder.rmdir()
    except OSError:
        return "needs a memory cgroup that it may write to"
    return ""


def memory_cgroups() -> Path:
    """Return where memory cgroups are made: version 1's own tree, or the one of version 2."""
    old = Path("/sys/fs/cgroup/memory")
    return old if old.is_dir() else Path("/sys/fs/cgroup")


_CHECKS: dict[str, Callable[[], str]] = {"root": _root, "mount": _mount, "loop": _loop, "memory cgroup": _memory_cgroup}
