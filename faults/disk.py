"""A disk of a scene's own: an ext4 on a loop device, to be filled, made read-only, or cut off from its power."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
from contextlib import suppress
from pathlib import Path

from faults import wait

_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2


class Disk:
    """Mounted at `folder` from its making until `remove`; `image` is sparse, so it takes what is written to it."""

    def __init__(self, folder: Path, image: Path, size_mib: int) -> None:
        self._folder = folder
        self._ballast = folder / "ballast"
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
        """Unmount it once nobody uses it; who was killed a moment ago may still be on the way out."""
        argv = ["umount", str(self._folder)]
        wait.until(lambda: subprocess.run(argv, capture_output=True, check=False).returncode == 0, 10, " ".join(argv))

    def remove(self) -> None:
        subprocess.run(["umount", "-l", str(self._folder)], capture_output=True, check=False)
        subprocess.run(["losetup", "-d", self._device], capture_output=True, check=False)

    def fill(self) -> None:
        """Leave not a byte free."""
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            found = os.statvfs(self._folder)
            os.posix_fallocate(file.fileno(), 0, max(1, found.f_bfree * found.f_frsize - (1 << 20)))
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(b"\0" * 4096)

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def set_read_only(self, is_read_only: bool) -> bool:
        """Remount; False where files that are open for writing do not let it."""
        how = "remount,ro" if is_read_only else "remount,rw"
        return subprocess.run(["mount", "-o", how, str(self._folder)], capture_output=True, check=False).returncode == 0

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


def _run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
