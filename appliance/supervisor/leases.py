"""What a worker has leased, in memory that it shares with the daemon: read only when the worker has died.

A slot is a length, a flag, an ack subject. The worker fills one as an item arrives and empties it when the item is
settled; no system call, no message. After a SIGKILL the memory is still there, and the daemon gives all of it back.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable

SLOT_BYTES = 256
SLOTS = 4096
"""More than a worker ever holds; what finds no slot comes back when its lease runs out, as without this."""


class Leases:
    """One writer (the worker), one reader (the daemon, after the writer's death)."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._memory = mmap.mmap(fd, SLOTS * SLOT_BYTES)
        self._free = list(range(SLOTS - 1, -1, -1))
        self._slots: dict[str, int] = {}

    @classmethod
    def create(cls) -> Leases:
        """Make the shared memory. It has no name, so nothing of it is left behind by any crash."""
        fd = os.memfd_create("leases", os.MFD_CLOEXEC)
        os.truncate(fd, SLOTS * SLOT_BYTES)
        return cls(fd)

    def add(self, ack_subject: str) -> None:
        data = ack_subject.encode()
        if not self._free or len(data) >= SLOT_BYTES - 2:
            return
        slot = self._slots[ack_subject] = self._free.pop()
        at = slot * SLOT_BYTES
        # The length goes in last: a death in between leaves an empty slot, not half a subject.
        self._memory[at + 1] = 0
        self._memory[at + 2 : at + 2 + len(data)] = data
        self._memory[at] = len(data)

    def remove(self, ack_subject: str) -> None:
        slot = self._slots.pop(ack_subject, None)
        if slot is not None:
            self._memory[slot * SLOT_BYTES] = 0
            self._free.append(slot)

    def mark(self, ack_subject: str, is_touched: bool) -> None:
        """Say whether the worker is at work on an item's content: its death would then be this item's doing."""
        slot = self._slots.get(ack_subject)
        if slot is not None:
            self._memory[slot * SLOT_BYTES + 1] = is_touched

    def clear(self, is_kept: Callable[[str], bool]) -> None:
        """Forget what died with the broker that leased it: all but what `is_kept` says is on disk."""
        for ack_subject in [one for one in self._slots if not is_kept(one)]:
            self.remove(ack_subject)

    def held(self) -> dict[str, bool]:
        """Return the ack subjects of everything leased, and whether each was touched: for the daemon."""
        starts = range(0, SLOTS * SLOT_BYTES, SLOT_BYTES)
        used = ((at, size) for at in starts if (size := self._memory[at]))
        return {self._memory[at + 2 : at + 2 + size].decode(): bool(self._memory[at + 1]) for at, size in used}

    def close(self) -> None:
        self._memory.close()
        os.close(self.fd)
