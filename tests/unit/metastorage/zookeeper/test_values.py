"""Many values in one request, as a member of ZooKeeper reads it and answers it."""

import struct

import pytest
from kazoo.exceptions import NoAuthError

from leasehold.limits.zookeeper import ZOOKEEPER_VALUES_MAX
from leasehold.metastorage.log.store import StoredValue
from leasehold.metastorage.zookeeper.values import ReadValues
from tests.unit.metastorage.zookeeper.fake_zookeeper import FakeZooKeeper, Reply, asking, running

CHILDREN, READ_MANY = 8, 22
NO_NODE, NO_AUTH = -101, -102
END_OF_ANSWERS = struct.pack(">i?i", -1, True, -1)


def found(value: bytes, version: int = 0) -> bytes:
    stat = struct.pack(">qqqqiiiqiiq", 1, 2, 3, 4, version, 0, 0, 0, len(value), 0, 2)
    return struct.pack(">i?ii", 4, False, 0, len(value)) + value + stat


def error(code: int) -> bytes:
    return struct.pack(">i?ii", -1, False, code, code)


def test_what_is_sent() -> None:
    asked = struct.pack(">i?ii2s?", 4, False, -1, 2, b"/a", False) + struct.pack(
        ">i?ii3s?", 4, False, -1, 3, b"/bc", False
    )
    assert ReadValues(["/a", "/bc"]).serialize() == asked + END_OF_ANSWERS


def test_what_is_answered() -> None:
    blob = b"header" + found(b"one", 7) + error(NO_NODE) + found(b"") + END_OF_ANSWERS
    one, missing, empty = ReadValues(["/1", "/2", "/3"]).deserialize(blob, 6)
    assert one is not None
    assert (one[0], one[1].version, one[1].data_length) == (b"one", 7, 3)
    assert missing is None
    assert empty is not None
    assert empty[0] == b""


def test_a_node_that_may_not_be_read_is_not_a_missing_one() -> None:
    with pytest.raises(NoAuthError):
        ReadValues(["/1", "/2"]).deserialize(found(b"one") + error(NO_AUTH) + END_OF_ANSWERS, 0)


@pytest.mark.parametrize(
    "blob",
    [
        pytest.param(END_OF_ANSWERS, id="none"),
        pytest.param(found(b"1") + found(b"2") + END_OF_ANSWERS, id="too many"),
        pytest.param(found(b"1"), id="without an end"),
        pytest.param(found(b"1")[:-1], id="cut"),
        pytest.param(struct.pack(">i?i", 2, False, 0) + END_OF_ANSWERS, id="of another kind"),
        pytest.param(error(-9_999) + END_OF_ANSWERS, id="an error that nobody knows"),
    ],
)
def test_what_is_no_answer(blob: bytes) -> None:
    with pytest.raises((ValueError, struct.error, RuntimeError)):
        ReadValues(["/1"]).deserialize(blob, 0)


async def test_a_page_takes_few_requests() -> None:
    """Each one costs a processor half a millisecond, so a log of 100,000 entries would take a minute."""
    names = [f"{number:016}" for number in range(ZOOKEEPER_VALUES_MAX + 1)]

    def reply(kind: int) -> Reply:
        if kind == CHILDREN:
            listed = ["0000000000000"] if fake.asked == [CHILDREN] else names
            words = b"".join(struct.pack(">i", len(one)) + one.encode() for one in listed)
            return Reply(struct.pack(">i", len(listed)) + words)
        count = ZOOKEEPER_VALUES_MAX if fake.asked.count(READ_MANY) == 1 else 1
        return Reply(found(b"v") * count + END_OF_ANSWERS)

    fake = FakeZooKeeper(reply)
    async with running(fake), asking(fake) as store:
        page = await store.page("entry", limit=len(names))
    assert page == [(name, StoredValue(value=b"v", version=1)) for name in names]
    assert fake.asked == [CHILDREN, CHILDREN, READ_MANY, READ_MANY]


async def test_a_page_whose_answer_can_not_be_read_is_asked_of_the_next_member() -> None:
    def member(values: bytes) -> FakeZooKeeper:
        def reply(kind: int) -> Reply:
            if kind == CHILDREN:
                name = b"\0\0\0\x0d0000000000000" if fake.asked == [CHILDREN] else b"\0\0\0\x100000000000000000"
                return Reply(b"\0\0\0\1" + name)
            return Reply(values)

        fake = FakeZooKeeper(reply)
        return fake

    garbled, sound = member(b"garbage"), member(found(b"v") + END_OF_ANSWERS)
    async with running(garbled, sound), asking(garbled, sound) as store:
        assert [name for name, _ in await store.page("entry", limit=9)] == ["0" * 16]
        assert store.member == sound.address
