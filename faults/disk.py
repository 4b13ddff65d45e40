"""Disks of a scene: a small one in memory, to be filled or made read-only; one on a loop device, to lose its power."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
from contextlib import suppress
from pathlib import Path

_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2


def _run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


class SmallDisk:
    """A file system in memory at `folder`."""

    def __init__(self, folder: Path, size_mib: int) -> None:
        self._folder = folder
        self._ballast = folder / "ballast"
        folder.mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(folder))

    def fill(self) -> None:
        """Leave not a byte free."""
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, self._free_bytes())
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(b"\0" * 4096)

    def _free_bytes(self) -> int:
        found = os.statvfs(self._folder)
        return max(1, found.f_bavail * found.f_frsize)

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def set_read_only(self, is_read_only: bool) -> bool:
        """Remount; False where files open for writing do not let it."""
        done = subprocess.run(
            ["mount", "-o", "remount,ro" if is_read_only else "remount,rw", str(self._folder)],
            capture_output=True,
            check=False,
        )
        return done.returncode == 0

    def remove(self) -> None:
        subprocess.run(["umount", "-l", str(self._folder)], capture_output=True, check=False)


class LoopDisk:
    """An ext4 of its own on a loop device, mounted at `folder`."""

    def __init__(self, folder: Path, image: Path, size_mib: int) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        with image.open("wb") as file:
            file.truncate(size_mib << 20)
        _run("mkfs.ext4", "-q", str(image))
        self._device = _run("losetup", "-f", "--show", str(image))
        self.mount()

    def mount(self) -> None:
        """Mount it; the journal is replayed, as after a power cut."""
        _run("mount", "-t", "ext4", self._device, str(self._folder))

    def unmount(self) -> None:
        _run("umount", str(self._folder))

    def cut_power(self) -> None:
        """Stop it as a power cut does: what is not on the disk by now will never be."""
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            flag = ctypes.c_uint32(_NO_LOG_FLUSH)
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.ioctl(descriptor, ctypes.c_ulong(_EXT4_IOC_SHUTDOWN), ctypes.byref(flag)):
                number = ctypes.get_errno()
                raise OSError(number, f"EXT4_IOC_SHUTDOWN: {errno.errorcode.get(number, number)}")
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        subprocess.run(["umount", "-l", str(self._folder)], capture_output=True, check=False)
        subprocess.run(["losetup", "-d", self._device], capture_output=True, check=False)
