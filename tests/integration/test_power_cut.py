"""The power fails: whatever the disk was not told to keep is gone. Needs root, for a file system of its own."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.config import Jobs
from appliance.wire import subjects
from appliance.wire.jobs import JobRecord
from appliance.workqueue import disk, replies
from tests import wait
from tests.integration.test_accepting import RECORD, SOON_S, Bench, result

SHUT_DOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN; with 2 (no log flush) it behaves as at a power cut."""
SETTINGS = Jobs(max_bytes=64 << 20, max_results_bytes=64 << 20, min_free_disk_bytes=0)


class Disk:
    """An ext4 file system in a file."""

    def __init__(self, image: Path, place: Path) -> None:
        self.image, self.place = image, place

    def mount(self) -> None:
        subprocess.run(["mount", "-o", "loop", self.image, self.place], check=True, capture_output=True)

    def unmount(self) -> None:
        subprocess.run(["umount", self.place], check=True, capture_output=True)

    def cut_power(self) -> None:
        fd = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUT_DOWN, struct.pack("I", 2))
        finally:
            os.close(fd)


@pytest.fixture
def own_disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "image", tmp_path / "disk")
    made.place.mkdir()
    with made.image.open("wb") as file:
        file.truncate(300 << 20)
    try:
        subprocess.run(["mkfs.ext4", "-q", made.image], check=True, capture_output=True)
        made.mount()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be made and mounted here")
    yield made
    made.unmount()


async def accept_and_answer(made: Bench) -> list[JobRecord]:
    """Accept jobs, and answer some of their items meanwhile."""
    worker = await made.start_worker(credit=50)
    records = [await made.accept(RECORD._replace(job_id=f"job_{number:03}")) for number in range(20)]
    await replies.send(worker, [([one], result(one)) for one in await made.got(50)])
    return records


def test_a_power_cut_loses_no_accepted_job_and_no_result(own_disk: Disk, tmp_path: Path) -> None:
    (tmp_path / "queue").symlink_to(own_disk.place)

    async def scene() -> None:
        made = Bench(tmp_path, SETTINGS)
        await made.start()
        records = await accept_and_answer(made)
        own_disk.cut_power()
        made.process.kill()
        await made.process.exited.wait()
        own_disk.unmount()
        own_disk.mount()
        made.process = made.server.process()
        made.process.start()
        assert await made.process.wait_ready(SOON_S)
        await wait.until_async(lambda: all(one.is_connected for one in made.brokers), SOON_S)
        try:
            assert sorted(await made.store.newest("*", 99)) == sorted(records)
            assert (await disk.size(made.daemon, subjects.JOBS))[0] >= 150
            waiting = await made.store.waiting()
            for number, record in enumerate(records):
                answered = len(await made.store.failed_in(record))
                assert answered == (10 if number < 5 else 0)
                assert answered + waiting.get(("me", record.job_id), ("", 0))[1] >= 10
        finally:
            await made.close()

    asyncio.run(scene())
