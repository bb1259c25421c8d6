"""What the store makes of etcd's answers."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import msgspec
import pytest

from leasehold.errors import Indefinite, Refused
from leasehold.limits.etcd import ETCD_DELETE_KEYS_MAX, ETCD_PAGE_BYTES_MAX, ETCD_PAGE_KEYS_MAX
from leasehold.limits.log import STORE_QUOTA_BYTES
from leasehold.limits.units import SECOND_NS
from leasehold.metastorage.access import StoreAccess
from leasehold.metastorage.etcd.client import EtcdClient
from leasehold.metastorage.etcd.messages import (
    COMPACT,
    RANGE,
    TXN,
    CompactionRequest,
    DeleteRangeRequest,
    EtcdKeyValue,
    RangeRequest,
    RangeResponse,
    StatusResponse,
    WatchResponse,
)
from leasehold.metastorage.etcd.store import EtcdStore, store_size
from leasehold.metastorage.log.store import MISSING, StoreFull, StoreSize, StoreUnsuitable, Swap
from tests.unit.metastorage.etcd.fake_etcd import Declined, FakeEtcd, HastyClock, declining, served

CREATED = WatchResponse(created=True)
EVENT = (b"\x08\x01",)
FULL = declining(grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")


@pytest.fixture
async def etcd() -> AsyncIterator[FakeEtcd]:
    etcd = FakeEtcd(1)
    async with served(etcd):
        yield etcd


@pytest.fixture
async def store(etcd: FakeEtcd) -> AsyncIterator[EtcdStore]:
    clock = HastyClock()
    client = EtcdClient(StoreAccess(endpoints=(etcd.address,)), clock, try_ns=10 * SECOND_NS)
    store = EtcdStore(client, "mine")
    yield store
    await store.close()


def requests(etcd: FakeEtcd, kind: type) -> list:
    return [one for one in etcd.requests if type(one) is kind]


# ------------------------------------------------------------ pages


async def test_a_page_asks_for_so_few_keys_that_the_largest_values_fit(etcd: FakeEtcd, store: EtcdStore) -> None:
    async def answer(request: RangeRequest) -> RangeResponse:
        first = int(request.key.removeprefix(b"mine/log/").removesuffix(b"\0") or b"1000")
        numbers = range(first + request.key.endswith(b"\0"), 1060)[: request.limit]
        kvs = tuple(EtcdKeyValue(key=b"mine/log/%d" % one, mod_revision=one, value=value) for one in numbers)
        return RangeResponse(header=etcd.header, kvs=kvs, more=numbers[-1] < 1059)

    etcd.scripts[RANGE] = answer
    value = b"v"
    found = await store.page("log", limit=1_000)
    assert [name for name, _ in found] == [str(number) for number in range(1000, 1060)]
    assert [one.version for _, one in found] == [*range(1000, 1060)]
    assert [one.limit for one in requests(etcd, RangeRequest)] == [ETCD_PAGE_KEYS_MAX] * 3
    assert {one.range_end for one in requests(etcd, RangeRequest)} == {b"mine/log0"}
    assert len(await store.page("log", "1030", limit=25)) == 25
    assert [one.limit for one in requests(etcd, RangeRequest)][3:] == [ETCD_PAGE_KEYS_MAX, 1]
    value = bytes(ETCD_PAGE_BYTES_MAX // ETCD_PAGE_KEYS_MAX + 1)
    assert len(await store.page("log", limit=1_000)) == ETCD_PAGE_KEYS_MAX


async def test_foreign_keys_below_the_prefix_are_refused(etcd: FakeEtcd, store: EtcdStore) -> None:
    async def answer(_request: RangeRequest) -> RangeResponse:
        return RangeResponse(header=etcd.header, kvs=(EtcdKeyValue(key=b"mine/log/\xff", mod_revision=3),))

    etcd.scripts[RANGE] = answer
    with pytest.raises(StoreUnsuitable, match="another program below mine/"):
        await store.page("log", limit=1)


async def test_a_deletion_goes_in_steps(etcd: FakeEtcd, store: EtcdStore) -> None:
    answers = [
        RangeResponse(
            header=etcd.header, kvs=(EtcdKeyValue(key=b"mine/e/1"), EtcdKeyValue(key=b"mine/e/2")), more=True
        ),
        RangeResponse(header=etcd.header, kvs=(EtcdKeyValue(key=b"mine/e/3"),)),
    ]

    async def answer(request: RangeRequest) -> RangeResponse:
        assert (request.limit, request.keys_only) == (ETCD_DELETE_KEYS_MAX, True)
        return answers.pop(0) if answers else RangeResponse(header=etcd.header)

    etcd.scripts[RANGE] = answer
    await store.delete_below("e", "9")
    assert requests(etcd, DeleteRangeRequest) == [
        DeleteRangeRequest(key=b"mine/e/", range_end=b"mine/e/2\0"),
        DeleteRangeRequest(key=b"mine/e/2\0", range_end=b"mine/e/3\0"),
    ]
    await store.delete_below("e", "9")
    assert etcd.asked.count("DeleteRange") == 2


# ------------------------------------------------------------ a full store


@pytest.mark.parametrize(
    ("swap", "there", "error"),
    [
        (Swap(unchanged={"head": 7}, puts={"head": b"1"}), 7, StoreFull),
        (Swap(unchanged={"head": 7}, puts={"head": b"1"}), 11, Indefinite),
        (Swap(unchanged={"head": 7}, deletes=("head",)), MISSING, Indefinite),
        (Swap(unchanged={"head": MISSING, "term": 3}, puts={"head": b"1", "free": b""}), MISSING, StoreFull),
        (Swap(unchanged={"head": MISSING, "term": 3}, puts={"head": b"1", "free": b""}), 11, Indefinite),
        (Swap(unchanged={"head": 7}, puts={"head": b"1"}), None, Indefinite),
        (Swap(unchanged={"term": 3}, puts={"head": b"1"}), 7, Indefinite),
        (Swap(unchanged={}, puts={"head": b"1"}), 7, Indefinite),
    ],
)
async def test_a_swap_is_refused_as_full_only_if_it_did_not_happen(
    etcd: FakeEtcd, store: EtcdStore, swap: Swap, there: int | None, error: type[Exception]
) -> None:
    async def answer(request: RangeRequest) -> RangeResponse:
        if there is None:
            raise Declined(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")
        assert request == RangeRequest(key=b"mine/head")
        kvs = () if there == MISSING else (EtcdKeyValue(key=request.key, mod_revision=there),)
        return RangeResponse(header=etcd.header, kvs=kvs)

    etcd.scripts |= {TXN: FULL, RANGE: answer}
    with pytest.raises(error) as caught:
        await store.swap(swap)
    assert type(caught.value) is error, "after `Unreachable` a swap surely did not happen"


async def test_whether_a_swap_that_found_the_store_full_happened_is_not_read_stale(
    etcd: FakeEtcd, store: EtcdStore
) -> None:
    etcd.status = msgspec.structs.replace(etcd.status, version="3.6.8")
    etcd.scripts[TXN] = FULL
    with pytest.raises(Indefinite):
        await store.swap(Swap(unchanged={"head": 7}, puts={"head": b"1"}))
    assert etcd.asked == ["Status", "Txn", "DeleteRange", "Range"]


def status(in_use: int, size: int, quota: int = 0, errors: tuple[str, ...] = ()) -> StatusResponse:
    return StatusResponse(db_size_in_use=in_use, db_size=size, db_size_quota=quota, errors=errors)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([status(10, 50)], (10, 1000, False)),
        ([status(10, 949)], (10, 1000, False)),
        ([status(10, 950)], (950, 1000, False)),
        ([status(10, 50, quota=500)], (10, 500, False)),
        ([status(10, 50), status(20, 30), status(15, 990)], (990, 1000, False)),
        ([status(10, 50), status(20, 30)], (20, 1000, False)),
        ([status(10, 50, quota=-1)], (10, None, False)),
        ([status(10, 50), status(5, 50, errors=("memberID:7 alarm:NOSPACE ",))], (10, 1000, True)),
        ([status(10, 50, errors=("etcdserver: no leader",))], (10, 1000, False)),
    ],
)
def test_the_size_of_the_store(statuses: list[StatusResponse], expected: tuple[int, int | None, bool]) -> None:
    used, quota, is_full = expected
    assert store_size(statuses, 1000) == StoreSize(used_bytes=used, quota_bytes=quota, is_full=is_full)


async def test_the_quota_of_a_release_that_does_not_tell_it(etcd: FakeEtcd, store: EtcdStore) -> None:
    assert (await store.size()).quota_bytes == STORE_QUOTA_BYTES


# ------------------------------------------------------------ history


async def test_the_history_before_the_previous_call_is_given_up(etcd: FakeEtcd, store: EtcdStore) -> None:
    await store.free_history()
    await store.get("k")
    await store.free_history()
    assert "Compact" not in etcd.asked, "of what came before the first request nothing is known"
    etcd.set_revision(40)
    await store.get("k")
    await store.free_history()
    assert requests(etcd, CompactionRequest) == [CompactionRequest(revision=10)]
    etcd.scripts[COMPACT] = declining(
        grpc.StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted"
    )
    await store.free_history()
    assert requests(etcd, CompactionRequest)[1:] == [CompactionRequest(revision=40)]
    etcd.scripts[COMPACT] = declining(grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large")
    with pytest.raises(Refused):
        await store.free_history()


# ------------------------------------------------------------ watches


async def test_a_watch_wakes_once_for_the_fragments_of_an_answer(etcd: FakeEtcd, store: EtcdStore) -> None:
    watch = store.watch("head")
    await anext(watch)
    waking = asyncio.ensure_future(anext(watch))
    stream = await etcd.watches.get()
    (request,) = [one for one in etcd.requests if type(one).__name__ == "WatchRequest"]
    assert request.create_request.key == b"mine/head"
    assert request.create_request.start_revision == 11
    assert request.create_request.fragment
    for answer in (CREATED, WatchResponse(), WatchResponse(events=EVENT, fragment=True), WatchResponse(events=EVENT)):
        assert not waking.done()
        await stream.put(answer)
    await waking
    waking = asyncio.ensure_future(anext(watch))
    await stream.put(WatchResponse(events=EVENT))
    await waking
    await watch.aclose()
    assert etcd.watches.empty()


@pytest.mark.parametrize(
    "fault",
    [
        None,
        WatchResponse(canceled=True, compact_revision=30),
        WatchResponse(created=True, canceled=True, cancel_reason="etcdserver: permission denied"),
        WatchResponse(canceled=True, cancel_reason="etcdserver: no leader"),
        Declined(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader"),
        Declined(grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token"),
    ],
)
async def test_a_watch_that_ends_is_opened_again(
    etcd: FakeEtcd, store: EtcdStore, fault: WatchResponse | Declined | None
) -> None:
    watch = store.watch("head")
    await anext(watch)
    waking = asyncio.ensure_future(anext(watch))
    stream = await etcd.watches.get()
    etcd.set_revision(20)
    await stream.put(fault)
    await waking  # the key may have changed meanwhile
    waking = asyncio.ensure_future(anext(watch))
    stream = await etcd.watches.get()
    assert etcd.requests[-1].create_request.start_revision == 21
    await stream.put(CREATED)
    await stream.put(WatchResponse(events=EVENT))
    await waking
    await watch.aclose()


async def test_a_watch_is_opened_at_the_next_member_and_hides_that_nobody_answers() -> None:
    one, two = FakeEtcd(1), FakeEtcd(2)
    async with served(one, two) as addresses:
        clock = HastyClock()
        store = EtcdStore(EtcdClient(StoreAccess(endpoints=addresses), clock, try_ns=10 * SECOND_NS), "mine")
        watch = store.watch("head")
        await anext(watch)
        waking = asyncio.ensure_future(anext(watch))
        await (await one.watches.get()).put(None)
        await waking
        waking = asyncio.ensure_future(anext(watch))
        stream = await two.watches.get()
        asked = asyncio.Semaphore(0)

        async def decline(_request: object) -> RangeResponse:
            asked.release()
            raise Declined(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")

        one.scripts[RANGE] = two.scripts[RANGE] = decline
        await stream.put(None)
        for _ in range(200):
            await asked.acquire()
        assert not waking.done()
        one.scripts.clear()
        await waking
        await store.close()
