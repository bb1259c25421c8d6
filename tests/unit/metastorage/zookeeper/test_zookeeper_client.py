"""What the client of ZooKeeper asks again, and what it can't know."""

import asyncio
import threading
from pathlib import Path

import pytest

from leasehold.errors import BadSettings, Indefinite, Refused, Unreachable
from leasehold.limits.units import MILLISECOND_NS, SECOND_NS
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.log.store import StoreDenied, StoredValue, StoreFull, Swap
from leasehold.metastorage.zookeeper.client import ZooKeeperClient
from leasehold.wire.clock import BoottimeClock
from tests.unit.metastorage.zookeeper.fake_zookeeper import (
    END,
    GET,
    MISSING_NODE,
    MULTI,
    SILENCE,
    FakeZooKeeper,
    Reply,
    asking,
    running,
)

PUT = Swap(unchanged={"log/head": 1}, puts={"log/head": b"1"})
VALUE = Reply(b"\0\0\0\1v" + bytes(68))


def patience(reply: Reply) -> int:
    """Short only where it has to run out."""
    return 500 * MILLISECOND_NS if reply is SILENCE else 60 * SECOND_NS


def always(reply: Reply) -> FakeZooKeeper:
    return FakeZooKeeper(lambda kind: reply)


@pytest.mark.parametrize(
    "reply",
    [SILENCE, END, Reply(code=-127), Reply(code=-7), Reply(code=-118), Reply(code=-9_999), Reply(b"garbage")],
    ids=["silent", "ended", "throttled", "timed out", "moved", "unknown code", "garbage"],
)
async def test_a_write_that_was_sent_is_sent_to_nobody_else(reply: Reply) -> None:
    first, second = always(reply), always(VALUE)
    async with running(first, second), asking(first, second, try_ns=patience(reply)) as store:
        with pytest.raises(Indefinite, match=first.address) as caught:
            await store.swap(PUT)
        assert not isinstance(caught.value, Unreachable)
        assert (first.asked, second.asked) == ([MULTI], [])


@pytest.mark.parametrize(
    "reply",
    [SILENCE, END, Reply(code=-127), Reply(code=-9_999), Reply(b"")],
    ids=["silent", "ended", "throttled", "unknown code", "garbage"],
)
async def test_a_read_is_asked_of_the_next_member(reply: Reply) -> None:
    first, second = always(reply), always(VALUE)
    async with running(first, second), asking(first, second, try_ns=patience(reply)) as store:
        assert await store.get("log/head") == StoredValue(value=b"v", version=1)
        assert (first.asked, second.asked) == ([GET], [GET])
        assert store.member == second.address


async def test_a_member_that_gives_no_session_is_sent_nothing() -> None:
    first, second = always(VALUE), always(END)
    first.greets = False
    async with running(first, second), asking(first, second) as store:
        with pytest.raises(Indefinite, match=second.address):
            await store.swap(PUT)
        assert first.asked == []


async def test_the_connection_after_a_broken_one_is_another_one() -> None:
    replies = [END, VALUE]
    fake = FakeZooKeeper(lambda kind: replies.pop(0))
    async with running(fake), asking(fake) as store:
        assert await store.get("log/head") is not None
        assert fake.asked == [GET, GET]
        assert fake.confirmations == 2, "each connection by itself"


async def test_readers_that_wait_share_a_confirmation_that_begins_after_they_came() -> None:
    fake = always(MISSING_NODE)
    async with running(fake), asking(fake) as store:
        assert await store.get("log/head") is None
        fake.may_confirm.clear()
        fake.is_asked_to_confirm.clear()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(store.get("log/first"))
            await fake.is_asked_to_confirm.wait()
            for number in range(50):
                tasks.create_task(store.get(f"log/{number}"))
            await asyncio.sleep(0)
            fake.may_confirm.set()
        assert fake.confirmations == 3
        assert fake.asked == [GET] * 52


async def test_a_member_that_was_asked_before_the_root_was_made_is_of_no_other_cluster() -> None:
    first, second = always(VALUE), always(VALUE)
    first.may_look.clear()
    root = Reply(bytes(7) + b"\1" + bytes(60))
    second.root = root
    async with running(first, second), asking(first, second) as store, asyncio.TaskGroup() as tasks:
        read = tasks.create_task(store.get("log/head"))
        await first.is_looked_at.wait()
        first.root = root
        tasks.create_task(store.members())
        await second.told_twice.wait()  # so its root was heard of
        first.may_look.set()
        assert await read == StoredValue(value=b"v", version=1)
        assert (first.asked, second.asked) == ([GET], [])


@pytest.mark.parametrize(
    ("code", "error"), [(-102, StoreDenied), (-114, StoreDenied), (-125, StoreFull)], ids=["no right", "ACL", "quota"]
)
async def test_what_never_happens_is_told_as_that(code: int, error: type[Exception]) -> None:
    fake = always(Reply(code=code))
    async with running(fake), asking(fake) as store:
        with pytest.raises(error):
            await store.swap(PUT)


async def test_a_login_that_is_not_taken_is_told(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hush")
    fake = always(VALUE)
    fake.auth = Reply(code=-115)
    async with running(fake), asking(fake, password_file=tmp_path / "password") as store:
        with pytest.raises(StoreDenied, match="takes no user"):
            await store.get("log/head")
        assert fake.asked == []


async def test_a_closed_store_leaves_no_thread() -> None:
    fake = always(SILENCE)

    def threads() -> set[threading.Thread]:
        return {one for one in threading.enumerate() if one.name == "zookeeper"}

    earlier = threads()  # of stores that another test closed a moment ago
    async with running(fake), asking(fake, try_ns=patience(SILENCE)) as store:
        watch = store.watch("log/head")
        await anext(watch)
        with pytest.raises(Indefinite, match="no answer in time"):
            await store.swap(PUT)
        (thread,) = threads() - earlier
        await store.close()
        thread.join(60)  # its last step is to tell that it ends
        assert not thread.is_alive()
        with pytest.raises(Refused, match="closed"):
            await anext(watch)


def test_files_that_can_not_be_read_are_told(tmp_path: Path) -> None:
    access = StoreAccess(endpoints=("127.0.0.1:1",), ca_file=tmp_path / "none")
    with pytest.raises(BadSettings, match="certificates"):
        ZooKeeperClient(access, "/c", BoottimeClock())
