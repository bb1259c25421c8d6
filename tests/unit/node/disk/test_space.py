"""A full disk is noted by whoever finds it full, and until a trial write finds space; one that fails to the end."""

import asyncio
import errno
import logging
import os
from pathlib import Path

import pytest

from leasehold.core.replicas.reconcile import OnDisk
from leasehold.errors import Definite, Refused
from leasehold.ids import BucketNumber, ObjectId, SegmentId
from leasehold.limits.node_disk import DISK_TRIAL_NS
from leasehold.limits.units import SECOND_NS
from leasehold.node.agent.published import Published
from leasehold.node.disk.disk_port import LocalDisk
from leasehold.node.disk.space import TRIAL_FILE, noting, watch_space
from leasehold.storage import segment
from leasehold.storage.files import SegmentFiles
from leasehold.testing.clock import SimulatedClock
from leasehold.testing.loop import VirtualLoop, run_virtual
from tests.conformance.segment_disk_ground import record_of


def test_only_a_write_that_found_no_space_fills_the_disk() -> None:
    published = Published()
    with pytest.raises(Definite), noting(published):
        raise Definite("a broken disk", code="DISK_ERROR")
    with pytest.raises(Refused), noting(published):
        raise Refused("no such table", code="TABLE_DROPPED")
    assert not published.disk_full
    assert published.disk_failing
    with pytest.raises(Refused) as caught, noting(published):
        raise Refused("no space", code="DISK_FULL")
    assert published.disk_full
    assert caught.value.code == "DISK_FULL"


def test_a_limit_of_the_process_says_nothing_of_the_disk() -> None:
    published = Published()
    with pytest.raises(Definite), noting(published):
        raise Definite("too many files", code="DISK_ERROR") from OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    assert not published.disk_failing


async def test_a_file_that_can_t_be_read_shows_that_the_disk_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published, files = Published(), SegmentFiles(tmp_path)
    files.open()
    disk = LocalDisk(files, published, lambda: 0)
    one = OnDisk(ObjectId(3), BucketNumber(0), SegmentId(f"{1:032x}-{1:032x}"))
    with files.create(one.table, one.bucket, one.segment) as file:
        file.write(b"rows")
        file.finish()

    async def rest(_bytes: int) -> None:
        pass

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    assert await disk.is_damaged(record_of(one, 4, bytes(32)), rest)
    assert not published.disk_failing, "its bytes differ, and could be read"
    monkeypatch.setattr(segment.os, "posix_fadvise", fail)
    assert await disk.is_damaged(record_of(one, 4, bytes(32)), rest)
    assert published.disk_failing


def test_it_is_full_until_a_trial_finds_space(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(compute: object, *args: object) -> object:
        return compute(*args)  # type: ignore[operator]

    monkeypatch.setattr(asyncio, "to_thread", at_once)

    async def main(_: object) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        published, folder = Published(), tmp_path / "node"
        watching = asyncio.ensure_future(watch_space(folder, published, SimulatedClock(loop)))
        published.disk_full = published.disk_failing = True
        await asyncio.sleep(3 * DISK_TRIAL_NS / SECOND_NS)
        assert published.disk_full, "the folder can't be written to"
        assert caplog.text.count("DISK_FULL: no space is left under") == 1
        folder.mkdir()
        await asyncio.sleep(2 * DISK_TRIAL_NS / SECOND_NS)
        assert not published.disk_full
        assert published.disk_failing, "a write that succeeds does not bring back what another one lost"
        assert caplog.text.count("takes writes again") == 1
        assert not (folder / TRIAL_FILE).exists()
        watching.cancel()
        await asyncio.wait([watching])

    with caplog.at_level(logging.INFO, logger="leasehold.node.disk.space"):
        run_virtual(main, 1)
