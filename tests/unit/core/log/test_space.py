"""Space in the store of a log: when the leader makes room, and when nothing may grow."""

import pytest

from leasehold.core.log.space import Room, checkpoint_fits, is_checkpoint_due, room_of
from leasehold.limits.log import CHECKPOINT_LOG_BYTES_MIN, CHECKPOINT_SCARCE_BYTES_MIN

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("used", "room"),
    [(0, Room.AMPLE), (699, Room.AMPLE), (700, Room.SCARCE), (849, Room.SCARCE), (850, Room.NEARLY_FULL)],
)
def test_the_room_follows_from_the_part_of_the_quota_that_is_used(used, room):
    assert room_of(used_bytes=used, quota_bytes=1000, is_full=False) is room


def test_a_store_that_says_so_is_full_whatever_it_counts():
    assert room_of(used_bytes=1, quota_bytes=1000, is_full=True) is Room.NEARLY_FULL
    assert room_of(used_bytes=1, quota_bytes=None, is_full=True) is Room.NEARLY_FULL


def test_a_store_without_a_quota_has_room():
    assert room_of(used_bytes=10**15, quota_bytes=None, is_full=False) is Room.AMPLE


@pytest.mark.parametrize(
    ("below_bytes", "last_bytes", "room", "due"),
    [
        (CHECKPOINT_LOG_BYTES_MIN, 0, Room.AMPLE, False),
        (CHECKPOINT_LOG_BYTES_MIN + 1, 0, Room.AMPLE, True),
        (CHECKPOINT_LOG_BYTES_MIN + 1, CHECKPOINT_LOG_BYTES_MIN + 1, Room.AMPLE, False),
        (200 * MIB, 200 * MIB, Room.AMPLE, False),
        (200 * MIB + 1, 200 * MIB, Room.AMPLE, True),
        (CHECKPOINT_SCARCE_BYTES_MIN, 0, Room.SCARCE, False),
        (CHECKPOINT_SCARCE_BYTES_MIN + 1, 0, Room.SCARCE, True),
        (25 * MIB, 200 * MIB, Room.SCARCE, False),
        (25 * MIB + 1, 200 * MIB, Room.SCARCE, True),
        (25 * MIB + 1, 200 * MIB, Room.NEARLY_FULL, True),
        (0, 0, Room.NEARLY_FULL, False),
    ],
)
def test_a_checkpoint_is_due_once_it_is_worth_what_it_costs(below_bytes, last_bytes, room, due):
    assert (
        is_checkpoint_due(
            below_bytes=below_bytes, last_bytes=last_bytes, room=room, log_bytes_min=CHECKPOINT_LOG_BYTES_MIN
        )
        is due
    )


def test_a_scarce_store_never_waits_longer_than_an_ample_one():
    for room in (Room.AMPLE, Room.SCARCE):
        assert is_checkpoint_due(below_bytes=101, last_bytes=0, room=room, log_bytes_min=100)
        assert not is_checkpoint_due(below_bytes=100, last_bytes=0, room=room, log_bytes_min=100)


def test_a_checkpoint_that_might_fill_the_store_is_not_begun():
    assert checkpoint_fits(bytes_max=300, used_bytes=700, quota_bytes=1000)
    assert not checkpoint_fits(bytes_max=301, used_bytes=700, quota_bytes=1000)
    assert checkpoint_fits(bytes_max=10**15, used_bytes=700, quota_bytes=None)
