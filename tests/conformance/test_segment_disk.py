"""What every disk port promises, held against real files over Flight and the simulated ones."""

import asyncio
from pathlib import Path
from random import Random

import msgspec
import pytest

from leasehold.core.replicas.reconcile import Emptied, OnDisk
from leasehold.core.words.messages import FetchTicket
from leasehold.errors import AlreadyExists, LeaseholdError, OutcomeUnknown
from leasehold.ids import BucketNumber, ClusterId, NodeId, ObjectId, SegmentId
from leasehold.limits.units import SECOND_NS
from leasehold.testing.rows import RowId, row_bytes
from tests.conformance.segment_disk_ground import (
    BUCKET,
    FIRST,
    GONE,
    OTHER,
    PEER,
    SECOND,
    TABLE,
    Check,
    Ground,
    Real,
    Run,
    Simulated,
    on_disk,
    quietly,
    refusal,
    segment_id,
    simulated,
    unheard,
)
from tests.unit.node.cluster import CLUSTER


@pytest.fixture(params=["files", "simulated"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    def real(check: Check) -> None:
        with Real(tmp_path) as ground:
            asyncio.run(check(ground))

    return real if request.param == "files" else simulated


# ---------------------------------------------------------------- both


def test_finished_segments_are_listed_and_those_being_written_are_not(run: Run) -> None:
    async def check(ground: Ground) -> None:
        assert await ground.listed() == frozenset()
        for one in (FIRST, SECOND, OTHER):
            await ground.put(one)
        with ground.begin(OnDisk(TABLE, BUCKET, segment_id(4))):
            assert await ground.listed() == {FIRST, SECOND, OTHER}
        assert await ground.listed() == {FIRST, SECOND, OTHER}

    run(check)


def test_a_name_is_written_once(run: Run) -> None:
    async def check(ground: Ground) -> None:
        await ground.put(FIRST)
        with pytest.raises(AlreadyExists):
            ground.begin(FIRST)
        with ground.begin(SECOND), pytest.raises(AlreadyExists):
            ground.begin(SECOND)
        await ground.put(SECOND)

    run(check)


def test_trash_takes_one_segment_and_trash_table_all_of_a_table(run: Run) -> None:
    async def check(ground: Ground) -> None:
        for one in (FIRST, SECOND, OTHER):
            await ground.put(one)
        assert await ground.disk.trash(FIRST)
        assert not await ground.disk.trash(FIRST)
        assert await ground.listed() == {SECOND, OTHER}
        assert await ground.disk.trash_table(TABLE)
        assert not await ground.disk.trash_table(TABLE)
        assert await ground.listed() == {OTHER}
        deleted = [(await ground.disk.empty_trash(1, 2**20)).files for _ in range(3)]
        assert deleted == [1, 1, 0]
        for one in (FIRST, SECOND):
            await ground.put(one)
        assert await ground.listed() == {FIRST, SECOND, OTHER}

    run(check)


def test_the_trash_is_emptied_by_files_and_by_bytes(run: Run) -> None:
    async def check(ground: Ground) -> None:
        records = [await ground.put(one) for one in (FIRST, SECOND, OTHER)]
        for one in (FIRST, SECOND, OTHER):
            await ground.disk.trash(one)
        size_bytes = records[0].size_bytes
        assert {one.size_bytes for one in records} == {size_bytes}
        assert await ground.disk.empty_trash(3, 0) == Emptied(files=0, size_bytes=0)
        # The file with which the limit is reached goes whole.
        assert await ground.disk.empty_trash(3, size_bytes + 1) == Emptied(files=2, size_bytes=2 * size_bytes)
        assert await ground.disk.empty_trash(3, size_bytes) == Emptied(files=1, size_bytes=size_bytes)

    run(check)


def test_a_file_of_another_size_than_the_manifest_says_goes_to_the_trash(run: Run) -> None:
    async def check(ground: Ground) -> None:
        whole, other = await ground.put(FIRST), await ground.put(SECOND)
        torn = msgspec.structs.replace(other, size_bytes=other.size_bytes + 1)
        absent = msgspec.structs.replace(whole, id=segment_id(9))
        assert await ground.disk.check_sizes([whole, torn, absent]) == (torn,)
        assert await ground.listed() == {FIRST}
        ground.damage(FIRST)
        assert await ground.disk.check_sizes([whole]) == (), "its bytes are not read"

    run(check)


def test_names_of_no_segment_are_refused(run: Run) -> None:
    async def check(ground: Ground) -> None:
        for one in (
            OnDisk(ObjectId(0), BUCKET, segment_id(1)),
            OnDisk(TABLE, BucketNumber(-1), segment_id(1)),
            OnDisk(TABLE, BUCKET, SegmentId("../x")),
        ):
            assert (await refusal(ground.disk.trash(one))).code == "BAD_SEGMENT_NAME"
        assert (await refusal(ground.disk.trash_table(ObjectId(0)))).code == "BAD_SEGMENT_NAME"

    run(check)


def test_a_segment_is_verified_against_the_manifest_and_trashed_if_it_differs(run: Run) -> None:
    async def check(ground: Ground) -> None:
        record = await ground.put(FIRST)
        assert await ground.disk.verify(record)
        assert not await ground.disk.verify(msgspec.structs.replace(record, id=segment_id(9)))
        wrong = msgspec.structs.replace(record, size_bytes=0)
        assert (await refusal(ground.disk.verify(wrong))).code == "BAD_SEGMENT_RECORD"
        assert await ground.listed() == {FIRST}
        ground.damage(FIRST)
        assert not await ground.disk.verify(record)
        assert await ground.listed() == frozenset()

    run(check)


def test_a_damaged_file_is_found_and_stays(run: Run) -> None:
    async def check(ground: Ground) -> None:
        record = await ground.put(FIRST)
        read: list[int] = []

        async def rest(piece_bytes: int) -> None:
            read.append(piece_bytes)

        assert not await ground.disk.is_damaged(record, rest)
        assert sum(read) == record.size_bytes
        assert not await ground.disk.is_damaged(msgspec.structs.replace(record, id=segment_id(9)), rest), "none is here"
        ground.damage(FIRST)
        assert await ground.disk.is_damaged(record, rest)
        assert await ground.listed() == {FIRST}
        wrong = msgspec.structs.replace(record, size_bytes=0)
        assert (await refusal(ground.disk.is_damaged(wrong, rest))).code == "BAD_SEGMENT_RECORD"

    run(check)


def test_a_segment_is_fetched_from_the_first_place_that_has_it_whole(run: Run) -> None:
    async def check(ground: Ground) -> None:
        record = await ground.peer_put(FIRST)
        asked: list[tuple[NodeId, str | None]] = []
        here = await ground.disk.fetch(
            record, [GONE, ground.peer], CLUSTER, lambda node, error, _came: asked.append((node, error and error.code))
        )
        assert here
        assert asked == [(GONE[0], "UNREACHABLE"), (PEER, None)]
        assert await ground.disk.verify(record)
        assert await ground.disk.fetch(record, [], CLUSTER, unheard), "it is here already"

    run(check)


def test_what_is_not_the_segment_is_not_kept(run: Run) -> None:
    async def check(ground: Ground) -> None:
        record = await ground.peer_put(FIRST)
        missing = await ground.peer_put(SECOND)
        ground.peer_damage(FIRST)
        asked: list[str | None] = []

        def on_asked(_node: NodeId, error: LeaseholdError | None, _came_bytes: int) -> None:
            asked.append(error and error.code)

        assert not await ground.disk.fetch(record, [ground.peer], CLUSTER, on_asked)
        lacking = msgspec.structs.replace(missing, id=segment_id(8))
        assert not await ground.disk.fetch(lacking, [ground.peer], CLUSTER, on_asked)
        assert not await ground.disk.fetch(missing, [ground.peer], ClusterId("d" * 32), on_asked)
        assert asked == ["CORRUPT", "SEGMENT_MISSING", "OTHER_CLUSTER"]
        assert await ground.listed() == frozenset()
        assert await ground.disk.fetch(missing, [ground.peer], CLUSTER, on_asked)

    run(check)


def test_a_file_that_is_here_is_never_replaced_by_a_copy(run: Run) -> None:
    async def check(ground: Ground) -> None:
        record = await ground.peer_put(FIRST)
        with ground.begin(FIRST):
            assert not await ground.disk.fetch(record, [ground.peer], CLUSTER, unheard), "it is being written"
        await ground.put(FIRST)
        ground.damage(FIRST)
        assert not await ground.disk.fetch(record, [ground.peer], CLUSTER, unheard)
        assert await ground.listed() == {FIRST}

    run(check)


def test_a_record_that_no_segment_can_have_is_not_asked_for(run: Run) -> None:
    async def check(ground: Ground) -> None:
        record = msgspec.structs.replace(await ground.peer_put(FIRST), sha256=b"short")
        error = await refusal(ground.disk.fetch(record, [ground.peer], CLUSTER, unheard))
        assert error.code == "BAD_SEGMENT_RECORD"

    run(check)


# ---------------------------------------------------------------- crashes, of the simulated one


def test_a_kill_loses_nothing_that_was_moved_and_open_clears_what_was_half_written() -> None:
    async def check(ground: Simulated) -> None:
        await ground.put(FIRST)
        half = ground.files.create(SECOND)
        half.write(row_bytes([RowId(1)]))
        ground.here.kill()
        half.discard()
        assert ground.here.half_written() == {SECOND}, "a dead process tidies nothing up"
        assert (await refusal(ground.files.listing())).code == "DISK"
        with pytest.raises(OutcomeUnknown):
            ground.files.create(OTHER)
        ground.open()
        assert ground.here.half_written() == frozenset()
        assert await ground.listed() == {FIRST}

    simulated(check)


def test_a_crash_keeps_what_was_synced_and_of_the_rest_what_was_moved_first() -> None:
    assert {left_by_a_crash(seed) for seed in range(20)} == {
        frozenset({FIRST}),
        frozenset({FIRST, SECOND}),
        frozenset({SECOND}),
    }


def left_by_a_crash(seed: int) -> frozenset[OnDisk]:
    """A segment came and another one went, neither synced yet."""
    came_to: list[frozenset[OnDisk]] = []

    async def check(ground: Simulated) -> None:
        await ground.put(FIRST)
        assert ground.here.holds(FIRST.table, FIRST.bucket, FIRST.segment)
        removed: list[SegmentId] = []
        ground.here.on_removed = lambda _table, _bucket, segment: removed.append(segment)
        ground.here.latency_ns = lambda: 2 * SECOND_NS
        group = ground.group
        group.create_task(quietly(ground.put(SECOND)))
        await asyncio.sleep(0.5)
        group.create_task(quietly(ground.disk.trash(FIRST)))
        await asyncio.sleep(1.2)
        assert ground.here.listing() == {SECOND}
        assert removed == [FIRST.segment]
        assert not ground.here.holds(SECOND.table, SECOND.bucket, SECOND.segment)
        ground.here.crash(Random(seed))
        left = ground.here.listing()
        assert removed == [FIRST.segment], "what a crash takes or gives back is no removal"
        assert all(ground.here.holds(one.table, one.bucket, one.segment) for one in left)
        came_to.append(left)

    simulated(check)
    return came_to[0]


def test_a_damaged_file_is_not_held_and_its_going_is_no_removal() -> None:
    async def check(ground: Simulated) -> None:
        record = await ground.put(FIRST)
        ground.here.on_removed = lambda *_: pytest.fail("nothing was lost")
        ground.damage(FIRST)
        assert not ground.here.holds(FIRST.table, FIRST.bucket, FIRST.segment)
        assert not await ground.disk.verify(record)
        assert (await ground.put(FIRST)).sha256 == record.sha256
        assert ground.here.holds(FIRST.table, FIRST.bucket, FIRST.segment)

    simulated(check)


def test_a_full_disk_takes_nothing_and_leaves_nothing() -> None:
    async def check(ground: Simulated) -> None:
        record = await ground.peer_put(SECOND)
        ground.here.full = True
        error = await refusal(ground.put(FIRST))
        assert error.code == "DISK_FULL"
        assert (await refusal(ground.disk.fetch(record, [ground.peer], CLUSTER, unheard))).code == "DISK_FULL"
        assert ground.here.half_written() == frozenset()
        ground.here.full = False
        assert await ground.disk.fetch(record, [ground.peer], CLUSTER, unheard)

    simulated(check)


def test_a_paused_process_moves_nothing() -> None:
    async def check(ground: Simulated) -> None:
        record = await ground.put(FIRST)
        ground.clock.pause()
        ground.group.create_task(quietly(ground.disk.trash(on_disk(record))))
        await asyncio.sleep(10)
        assert ground.here.listing() == {FIRST}
        ground.clock.resume()
        await asyncio.sleep(1)
        assert ground.here.listing() == frozenset()

    simulated(check)


def test_a_ticket_for_another_message_is_refused() -> None:
    async def check(ground: Simulated) -> None:
        connection = ground.network.host("n1").connect(ground.peer_address)
        request = FetchTicket(cluster_id=CLUSTER, table=TABLE, bucket=BUCKET, segment=segment_id(1))
        assert (await refusal(connection.call(request, timeout_ns=SECOND_NS))).code == "BAD_TICKET"
        await connection.close()

    simulated(check)
